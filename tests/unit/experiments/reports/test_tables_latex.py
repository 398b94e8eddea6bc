"""Texts that stopped pdflatex, or that it printed otherwise, before they were escaped."""

import pytest

from kernelbandits.experiments.reports.tables import latex_escaped, latex_packages


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("[0.1]", "{[}0.1]"),
        ("* best", "{*} best"),
        ("--fast", "-{}-fast"),
        ("a---b", "a-{}-{}-b"),
        ("?`x", r"?\textasciigrave{}x"),
        ("x → ∞, ≠ ≈", r"x $\rightarrow$ $\infty$, $\neq$ $\approx$"),
        ("10⁻⁶ x₂²", "10$^{-}$$^{6}$ x$_{2}$$^{2}$"),
        ("ϕ Π ο Β", r"$\phi$ $\Pi$ o B"),  # the last two are Greek
        ("e\u0301 x\u0302", r"é \^{x}"),
        ("γ\u0302", r"\^{$\gamma$}"),
        ("a\u00a0b\u2009c\u200bd", "a b cd"),
        ("a\tb\nc\rd\x00e\x07f", "a b c d e f"),
        ("\u0301a", "\u0301a"),
    ],
)
def test_text_is_printed_as_it_reads(text, printed):
    assert latex_escaped(text) == printed


@pytest.mark.parametrize("text", ["plain", "é ß ø ł", "Привет", "中", "“q” — €"])
def test_letters_and_quotes_that_latex_knows_or_fonts_have_stay(text):
    assert latex_escaped(text) == text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("plain", ["% \\usepackage{booktabs}"]),
        ("é — “q”", ["% \\usepackage{booktabs}", "% \\usepackage[T1]{fontenc}"]),
        (
            "中",
            [
                "% \\usepackage{booktabs}",
                "% \\usepackage[T1]{fontenc}",
                "% and, for letters beyond Latin, lualatex with a font that has them",
            ],
        ),
    ],
)
def test_the_head_says_what_the_text_needs(text, lines):
    assert latex_packages(text, "booktabs").splitlines() == lines
