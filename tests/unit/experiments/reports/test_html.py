import shlex
from base64 import b64decode
from dataclasses import replace
from html import unescape

from kernelbandits.cli.main import _parser, main
from kernelbandits.experiments import Study, run
from kernelbandits.experiments.plotting.style import VARIANTS
from kernelbandits.experiments.reports.html import _details, _how_to_repeat, data_url, figure_element
from kernelbandits.experiments.reports.tables import Table


def test_each_mode_has_its_image_and_text_is_escaped():
    html = figure_element({name: f"{name}.svg" for name in VARIANTS}, alt_text='Curves, "drawn"', caption="A < B")

    assert '<source media="(prefers-color-scheme: dark)" srcset="dark.svg">' in html
    assert '<source media="(max-width: 700px)" srcset="narrow-light.svg">' in html
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


FILE = """\
name = "a <b>"
horizon = 4
seeds = 1
[environments.groups]
class = "Clustered"
n_actions = 3
[policies.mine]
class = "chance"
"""


def repeated(folder, *, from_file):
    """What the page of a report says about how to run the study again."""
    (folder / "study.toml").write_text(FILE, encoding="utf-8")
    (folder / "mine.py").write_text(
        "import kernelbandits as kb\n\ndef chance(seed):\n    return kb.UniformRandom(seed=seed)\n", encoding="utf-8"
    )
    study = Study.from_toml(folder / "study.toml", classes=[folder / "mine.py"])
    results = run(study if from_file else replace(study, seeds=2), folder / "my results", workers=1)
    return unescape("\n".join(_how_to_repeat(results, "'my results'")))


def test_a_study_from_a_file_shows_its_files_and_the_command(tmp_path, monkeypatch):
    text = repeated(tmp_path, from_file=True)

    folder = tmp_path / "my results"
    (command,) = [line for line in text.splitlines() if "kernelbandits run" in line]
    arguments = shlex.split(command.partition("kernelbandits ")[2])
    given = _parser().parse_args(arguments)
    assert (given.study, given.files) == (str(folder / "study.toml"), [str(folder / "sources" / "mine.py")])
    assert f'<summary>study.toml</summary>\n<pre tabindex="0"><code>{FILE}' in text
    assert "<summary>sources/mine.py</summary>" in text
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--dry-run"]) == 0


def test_a_study_from_python_names_no_file_that_is_not_there(tmp_path):
    text = repeated(tmp_path, from_file=False)

    assert "kernelbandits run" not in text
    assert f"run(study, {str(tmp_path / 'my results')!r})" in text
