from kernelbandits.experiments.labels import shortened, text_width


def test_wider_text_is_wider():
    assert text_width("mm", 9.0) > text_width("m", 9.0) > text_width("i", 9.0) > 0.0
    assert text_width("m", 18.0) > 1.8 * text_width("m", 9.0)
    assert text_width("", 9.0) == 0.0


def test_dollars_are_letters():
    assert text_width("$x$", 9.0) > text_width("x", 9.0)


def test_text_that_is_too_wide_loses_its_middle():
    short = shortened("KernelUCB exploration=0.1 regularization=10", 1.5, 9.0)

    assert text_width(short, 9.0) <= 1.5
    assert short.startswith("KernelUCB")
    assert short.endswith("=10")
    assert "…" in short


def test_text_that_fits_stays():
    assert shortened("KernelUCB", 3.0, 9.0) == "KernelUCB"
