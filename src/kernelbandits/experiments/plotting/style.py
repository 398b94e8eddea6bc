"""Themes, layout, legends and image files of figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from math import log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kernelbandits._optional import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

__all__ = [
    "BACKGROUND",
    "COLORS",
    "DARK",
    "LIGHT",
    "THEMES",
    "WIDTH",
    "CurveStyle",
    "LegendEntry",
    "Theme",
    "abbreviate",
    "add_legend",
    "apply_theme",
    "drawing_context",
    "missing_glyphs",
    "new_figure",
    "pdf",
    "png",
    "set_log_ticks",
    "svg",
    "write_caption",
]

FONT: Final = "DejaVu Sans"
"""Bundled with matplotlib, so figures are the same on every machine."""

WIDTH: Final = 10.4
"""Width of a figure in inches."""

CAPTION_CHARACTERS: Final = 168
"""Characters per line of a caption, in a figure of this width."""

CAPTION_LINE: Final = 0.16
"""Height of a line of the caption in inches."""

MAX_LABEL, MAX_LINE = 56, 30
"""Characters of a label, beyond which it is abbreviated, and of a line of a legend."""

FEW_DECADES: Final = 1.5
"""A logarithmic axis of at most this many decades also has labels at 2 and 5 times a power of ten."""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colors of light or dark mode; curves refer to theirs by name."""

    background: str
    foreground: str
    muted: str
    grid: str
    colors: Mapping[str, str]


# Both are derived from the palette of Okabe and Ito, which people with any common color vision can distinguish: the
# light colors are darker on a white background, all colors are lighter on a dark one.
LIGHT: Final = Theme(
    background="#ffffff",
    foreground="#1a1a1a",
    muted="#666666",
    grid="#e6e6e6",
    colors={
        "blue": "#0072b2",
        "sky": "#3d9fdb",
        "orange": "#d98e00",
        "red": "#d55e00",
        "purple": "#b4588e",
        "green": "#009e73",
        "gray": "#808080",
        "black": "#1a1a1a",
        "background": "#c9c9c9",
    },
)
DARK: Final = Theme(
    background="#14161a",
    foreground="#e8e8e8",
    muted="#a0a4ab",
    grid="#2b2f36",
    colors={
        "blue": "#4aa8e8",
        "sky": "#a5dcff",
        "orange": "#f2b53c",
        "red": "#f47f3e",
        "purple": "#e69ac9",
        "green": "#3fcfa6",
        "gray": "#9a9a9a",
        "black": "#e8e8e8",
        "background": "#4b515a",
    },
)
THEMES: Final = {"light": LIGHT, "dark": DARK}

COLORS: Final = ("blue", "orange", "green", "red", "purple", "sky", "black")
"""Colors of policies, in the order in which they are assigned."""


class CurveStyle(NamedTuple):
    """Color of a policy, the same in every figure of a report."""

    color: str
    is_background: bool = False
    """Drawn thin and gray, without interval and legend entry."""


BACKGROUND: Final = CurveStyle("background", is_background=True)


class LegendEntry(NamedTuple):
    """A label with the line or marker that it explains."""

    label: str
    color: str
    marker: str | None = None
    line: Literal["-", "--", "none"] = "-"
    is_math: bool = False
    """Whether dollar signs in the label delimit formulas."""


@contextmanager
def drawing_context() -> Iterator[None]:
    """Use matplotlib's default settings whatever the user's are, without pyplot."""
    import_optional("matplotlib", "This part of experiments")
    from matplotlib import style

    with style.context("default"):
        yield


def new_figure(height: float, theme: Theme, *, caption: str = "") -> Figure:
    """An empty figure with constrained layout, `height` inches high without its caption."""
    from matplotlib.figure import Figure

    lines = wrap(caption, CAPTION_CHARACTERS)
    total = height + (CAPTION_LINE * len(lines) + 0.15 if lines else 0.0)
    figure = Figure(figsize=(WIDTH, total), facecolor=theme.background, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    if lines:
        write_caption(figure, "\n".join(lines), theme)
    return figure


def write_caption(figure: Figure, caption: str, theme: Theme) -> None:
    """Add small text at the bottom of the figure."""
    text = figure.supxlabel(
        caption, x=0.008, ha="left", fontsize=8, color=theme.muted, linespacing=1.35, multialignment="left"
    )
    text.set_parse_math(False)


def apply_theme(axes: Axes, title: str, theme: Theme, *, x_label: str = "Round", y_label: str = "") -> None:
    """Set title, axis labels, a thin grid and two spines."""
    axes.set_facecolor(theme.background)
    axes.set_title(abbreviate(title, 60), loc="left", fontsize=10.5, color=theme.foreground, pad=9, parse_math=False)
    axes.set_xlabel(x_label, fontsize=9, color=theme.foreground, parse_math=False)
    axes.set_ylabel(y_label, fontsize=9, color=theme.foreground, parse_math=False)
    axes.grid(visible=True, color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.muted, labelsize=8.5, length=3, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.muted)
        spine.set_linewidth(0.6)


def add_legend(target: Figure | Axes, entries: Sequence[LegendEntry], theme: Theme) -> None:
    """Place a legend to the right of a figure or of one panel."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    if not entries:
        return
    handles = [
        Line2D([], [], color=theme.colors[entry.color], marker=entry.marker, linestyle=entry.line, linewidth=1.8,
               markersize=5, markerfacecolor=theme.background)
        for entry in entries
    ]  # fmt: skip
    # Texts are set afterwards: matplotlib leaves labels that begin with an underscore out of a legend.
    names = [str(number) for number in range(len(entries))]
    options: dict[str, Any] = {
        "frameon": False, "fontsize": 8.5, "labelcolor": theme.foreground, "handlelength": 1.7
    }  # fmt: skip
    if isinstance(target, Figure):
        legend = target.legend(handles, names, loc="outside right upper", **options)
    else:
        options |= {"bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
        legend = target.legend(handles, names, loc="upper left", **options)
    for text, entry in zip(legend.get_texts(), entries, strict=True):
        _set_label(text, entry)


def _set_label(text: Text, entry: LegendEntry) -> None:
    text.set_parse_math(entry.is_math)
    text.set_text(entry.label if entry.is_math else "\n".join(wrap(abbreviate(entry.label), MAX_LINE)))


def set_log_ticks(axis: Axis) -> None:
    """Label a logarithmic axis whose limits are set: powers of ten, and 2 and 5 between them on a short axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if log10(high / low) <= FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def abbreviate(text: str, length: int = MAX_LABEL) -> str:
    """Leave out the middle of a long text: what distinguishes settings is often at the end.

    >>> abbreviate("KernelUCB, exploration=0.1, regularization=10", 24)
    'KernelUCB, e…rization=10'
    """
    if len(text) <= length:
        return text
    return f"{text[: length // 2].rstrip()}…{text[len(text) - (length - 1) // 2 :].lstrip()}"


def missing_glyphs(texts: Iterable[str]) -> str:
    """Characters of the texts that the font of figures does not have, each once.

    >>> missing_glyphs(["γ = 0.1", "机会 1", "机"])
    '机会'
    """
    characters = dict.fromkeys("".join(texts))
    return "".join(char for char in characters if not char.isspace() and ord(char) not in _font_characters())


@cache
def _font_characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(FONT)).get_charmap())


def png(figure: Figure, *, dots_per_inch: int = 200) -> bytes:
    """The figure as the content of a PNG file."""
    return _save(figure, "png", dpi=dots_per_inch, metadata={"Software": None})


def svg(figure: Figure, *, source: str | None = None) -> str:
    """The figure as SVG with text drawn as paths; equal figures give equal text.

    Parameters
    ----------
    source
        Origin of the figure, stored in the metadata of the file.
    """
    return _save(figure, "svg", metadata={"Date": None, "Creator": None, "Source": source}).decode()


def pdf(figure: Figure) -> bytes:
    """The figure as the content of a PDF file, with fonts embedded as TrueType, as journals require."""
    return _save(figure, "pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})


def _save(figure: Figure, kind: str, **options: object) -> bytes:
    from matplotlib import rc_context

    buffer = BytesIO()
    settings: dict[Any, Any] = {"svg.fonttype": "path", "svg.hashsalt": "kernelbandits", "pdf.fonttype": 42}
    with warnings.catch_warnings(), rc_context(settings):
        # Missing glyphs are one warning of the report (`missing_glyphs`), not one per character.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ ", category=UserWarning)
        figure.savefig(buffer, format=kind, **options)  # type: ignore[arg-type]
    return buffer.getvalue()
