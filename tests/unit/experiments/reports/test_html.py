from base64 import b64decode

from kernelbandits.experiments.reports.html import _details, data_url, figure_element
from kernelbandits.experiments.reports.tables import Table


def test_each_mode_has_its_image_and_text_is_escaped():
    html = figure_element("light.svg", "dark.svg", alt_text='Curves, "drawn"', caption="A < B")

    assert '<source media="(prefers-color-scheme: dark)" srcset="dark.svg">' in html
    assert '<img src="light.svg" alt="Curves, &quot;drawn&quot;">' in html
    assert "A &lt; B" in html


def test_images_are_embedded_as_data():
    kind, _, content = data_url("<svg>light</svg>").partition(";base64,")
    assert (kind, b64decode(content)) == ("data:image/svg+xml", b"<svg>light</svg>")
    assert data_url(b"png").startswith("data:image/png;base64,")


def test_cells_are_escaped_and_the_best_row_is_marked():
    rows = [("<script>alert(1)</script>", "1.0"), ("Random", "9.0")]

    html = Table(title="t", headings=("Policy", "Regret"), rows=rows, highlighted=1).to_html()

    assert "<script" not in html
    assert '<tr class="best"><th scope="row">Random</th><td>9.0</td></tr>' in html


def test_parameters_are_flat_and_leave_out_unset_ones():
    html = _details("Environment", {"kernel": {"class": "Gaussian", "length_scale": 0.2}, "norm": None})

    assert "<td>kernel.length_scale</td><td><code>0.2</code></td>" in html
    assert "<td>norm</td>" not in html
