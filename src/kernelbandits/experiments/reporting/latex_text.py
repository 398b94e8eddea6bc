"""Text as LaTeX prints it, with no package but those of its base."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["escaped", "packages"]

GREEK: Final = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho",
    "σ": "sigma", "ς": "varsigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "ϕ": "phi", "χ": "chi", "ψ": "psi",
    "ω": "omega", "ϑ": "vartheta", "ϵ": "epsilon", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi",
    "Π": "Pi", "Σ": "Sigma", "Υ": "Upsilon", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip

RELATIONS: Final = {
    "±": "pm", "∓": "mp", "·": "cdot", "×": "times", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx", "∼": "sim",
    "≡": "equiv", "∝": "propto", "∞": "infty", "→": "rightarrow", "←": "leftarrow", "↑": "uparrow", "↓": "downarrow",
    "∈": "in", "∑": "sum", "∏": "prod", "∂": "partial", "∇": "nabla", "∥": "parallel", "‖": "|", "⟨": "langle",
    "⟩": "rangle", "⊗": "otimes", "⊕": "oplus", "∘": "circ", "√": "surd", "ℓ": "ell", "′": "prime", "★": "star",
}  # fmt: skip

LOOK_ALIKES: Final = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True))
"""Greek letters that TeX has no sign of its own for."""

HIGH: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ", "0123456789+-=()n", strict=True))
LOW: Final = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎", "0123456789+-=()", strict=True))

SIGNS: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$", '"': "''",
    "[": "{[}", "*": "{*}",  # at the beginning of a row they would belong to the end of the one before
    "`": r"\textasciigrave{}", "−": "$-$", "–": "--", "…": r"\ldots{}",
    **{letter: rf"$\{name}$" for letter, name in (GREEK | RELATIONS).items()},
    **{letter: f"$^{{{sign}}}$" for letter, sign in HIGH.items()},
    **{letter: f"$_{{{sign}}}$" for letter, sign in LOW.items()},
    **LOOK_ALIKES,
}  # fmt: skip

ACCENTS: Final = dict(zip("\u0300\u0301\u0302\u0303\u0304\u0307\u0308", "`'^~=.\"", strict=True))
"""Marks that stand over the letter before them, and the commands that set them."""

LAST_LATIN: Final = "\u017f"
"""LaTeX knows the letters up to here, with fonts in encoding T1, and some signs beyond."""

KNOWN_SIGNS: Final = "‘’“”„—•†‡€™ﬁﬂ"


def escaped(text: str) -> str:
    r"""The text as LaTeX prints it; letters beyond Latin and Greek stay as they are and need a font that has them.

    >>> print(escaped("R&D_1: 50 % of #3"))
    R\&D\_1: 50 \% of \#3
    """
    parts: list[str] = []
    for letter in unicodedata.normalize("NFC", text):
        if letter in ACCENTS and parts:
            parts.append(rf"\{ACCENTS[letter]}{{{parts.pop()}}}")
        else:
            parts.append("{}-" if letter == "-" and parts and parts[-1].endswith("-") else _sign(letter))
    return "".join(parts)


def packages(text: str, *names: str) -> str:
    """Comments that say what a file needs besides its own lines."""
    needed = [rf"\usepackage{{{name}}}" for name in names]
    if not text.isascii():
        needed.append(r"\usepackage[T1]{fontenc}")
    if any(letter > LAST_LATIN and letter not in KNOWN_SIGNS for letter in text):
        needed.append("and, for letters beyond Latin, lualatex with a font that has them")
    return "".join(f"% {line}\n" for line in needed)


def _sign(letter: str) -> str:
    if letter in SIGNS:
        return SIGNS[letter]
    kind = unicodedata.category(letter)
    if kind == "Cf":  # of no width
        return ""
    return " " if kind in ("Cc", "Zs", "Zl", "Zp") else letter
