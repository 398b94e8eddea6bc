"""Formulas in plain Unicode are typeset as they are meant, and nothing else is."""

import ast
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from markdown import Markdown
from scripts.site.formulas import block, formula, pieces, spans

ROOT = Path(__file__).parents[3]


def shape(text, **options):
    """The MathML without the rows and spaces that only group."""
    found = formula(text, **options)
    return re.sub(r"</?mrow>|<mspace[^>]*></mspace>|</?math[^>]*>| [a-z]+=\"[^\"]*\"", "", found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("γ^(−1/2)", "<msup><mi>γ</mi><mo>−</mo><mn>1</mn><mo>/</mo><mn>2</mn></msup>"),
        ("kᵀA⁻¹y", "<msup><mi>k</mi><mi>T</mi></msup><msup><mi>A</mi><mo>−</mo><mn>1</mn></msup><mi>y</mi>"),
        ("sqrt(d̃T)", "<msqrt><mover><mi>d</mi><mo>~</mo></mover><mi>T</mi></msqrt>"),
        ("x_{a,t}", "<msub><mi>x</mi><mi>a</mi><mo>,</mo><mi>t</mi></msub>"),
        ("l_T³", "<msubsup><mi>l</mi><mi>T</mi><mn>3</mn></msubsup>"),
        ("2NT", "<mn>2</mn><mi>N</mi><mi>T</mi>"),
        ("noise_scale", "<mi>noise_scale</mi>"),
        ("p_min", "<msub><mi>p</mi><mi>min</mi></msub>"),
        ("10,000", "<mn>10,000</mn>"),
        ("1e-11 k", "<mn>1e-11</mn><mi>k</mi>"),
        ("a ≠ b", "<mi>a</mi><mo>≠</mo><mi>b</mi>"),
        ("R-sub-Gaussian", "<mi>R-sub-Gaussian</mi>"),
        ("W'(x)", "<msup><mi>W</mi><mo>′</mo></msup><mo>(</mo><mi>x</mi><mo>)</mo>"),
    ],
)
def test_signs_get_their_meaning(text, expected):
    assert shape(text) == expected


@pytest.mark.parametrize(
    ("text", "over", "under"),
    [
        ("μ / (μ + γ)", "μ", "μ+γ"),
        ("n c(a)² / (n v(x) + γ)", "nc(a)2", "nv(x)+γ"),
        ("1 / 2N", "1", "2N"),
        ("a + b c/d", "c", "d"),
        ("mean_x 1 / W", "1", "W"),
        ("x / Σ w", "x", "∑w"),
    ],
)
def test_a_division_that_stands_alone_is_a_fraction(text, over, under):
    fraction = ET.fromstring(formula(text, is_display=True)).find(".//mfrac")

    assert ["".join(part.itertext()) for part in fraction] == [over, under]


@pytest.mark.parametrize("text", ["(a", "a)", "sqrt(a", "x^", "[a)"])
def test_what_is_not_a_formula_is_left_alone(text):
    assert formula(text) is None


def test_lines_are_aligned_at_their_relations():
    rows = ET.fromstring(block("mean(x)  = kᵀ y\nwidth(x) = γ^(-1/2)    a remark")).findall(".//mtr")

    assert ["".join(row[0].itertext()) for row in rows] == ["mean(x)", "width(x)"]
    assert "".join(rows[1][2].itertext()) == "aremark"


@pytest.mark.parametrize(
    "code", [">>> 1 + γ", "class Softmax(Policy):\n    a = 1", "kernelbandits run study.toml", 'x = "γ"']
)
def test_code_stays_code(code):
    assert block(code) is None


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("At least sqrt(2 ln T), with γ > 0.", ["sqrt(2 ln T)", "γ > 0"]),
        ("The eigenvalues μ₁ ≥ μ₂ ≥ … fall fast.", ["μ₁ ≥ μ₂ ≥ …"]),
        ("If |mean − f| ≤ η · width holds for all N actions", ["|mean − f| ≤ η · width", "N"]),
        ("a rule (see E12) that takes 0.4 s a round", []),
        ("a total of 1.68e+03 s, or 2 s", []),
        ("rewards in [0, 1] at T = 10¹⁰", ["T = 10¹⁰"]),
        ("A policy, I think, is a rule.", []),
        ("the gap (γ is small) closes", ["γ"]),
        ("the covariance c(a) with x", ["c(a)", "x"]),
        ("value = (1/n) Σ w r, with weights", ["value = (1/n) Σ w r"]),
        ("over Σ_a π(a|x) f(x, a).", ["Σ_a π(a|x) f(x, a)"]),
        ("a list of rewards(rows), or a remark (a/b is one)", []),
        ("of order (T² N ln M)^(1/3) on [0, 1]^D.", ["(T² N ln M)^(1/3)", "[0, 1]^D"]),
        ("is 1 + sqrt(residual/γ) of max_a f(a)", ["1 + sqrt(residual/γ)", "max_a f(a)"]),
    ],
)
def test_formulas_are_found_in_sentences(sentence, expected):
    assert [sentence[start:end] for start, end in spans(sentence)] == expected


def test_words_are_identifiers_since_operators_beside_text_lose_their_space():
    """MathML takes an operator and text elements for one operator, whose space lies around both of them."""
    parts = pieces("mean + exploration · noise_scale")

    assert len(parts) == 3
    assert not any("<mtext" in part for part in parts)


def rendered(markdown):
    return Markdown(extensions=["scripts.site.pages", "tables"]).convert(markdown)


def test_pages_get_formulas_outside_of_code_and_headings():
    html = rendered(
        "# With γ\n\nWith γ and `γ`:\n\n    η = sqrt(γ)\n\n```text\nγ\n```\n\n| γ |\n| --- |\n| 1.5 ± 0.2 |"
    )

    assert "<h1>With γ</h1>" in html
    assert "<code>γ</code>" in html
    assert html.count("<math") == 3  # the sentence, the block, the table
    assert "1.5\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.2" in html


def test_an_inequality_in_a_block_is_not_escaped_twice():
    html = rendered("The rule:\n\n    mean − width > margin")

    assert "&gt;" in html
    assert "&amp;" not in html


def indented_blocks():
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                yield from (part for part in re.split(r"\n\s*\n", text) if re.match(r"    (?!>>>)", part))
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        yield from (part for part in re.split(r"\n\s*\n", text) if part.startswith("    ") and ":::" not in part)


def test_every_formula_of_the_project_can_be_read():
    blocks = list(indented_blocks())

    left = [text for text in blocks if block(text) is None and not text.lstrip().startswith("class ")]

    assert len(blocks) > 50
    assert left == []
