import pytest

from kernelbandits.experiments.themes import DARK, LIGHT, contrast, legible


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_color_can_be_made_readable(theme):
    for color in theme.colors.values():
        assert contrast(legible(color, theme), theme.paper) >= 4.5


def test_contrast_has_no_order_and_known_values():
    assert contrast("#777777", "#ffffff") == contrast("#ffffff", "#777777") == pytest.approx(4.478, abs=1e-3)
    assert contrast("#123456", "#123456") == 1.0
