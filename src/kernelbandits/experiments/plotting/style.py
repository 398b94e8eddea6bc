"""Themes, layouts, legends and image files of figures."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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

__all__ = [
    "BACKGROUND",
    "COLORS",
    "DARK",
    "LIGHT",
    "NARROW_WIDTH",
    "PAPER",
    "THEMES",
    "VARIANTS",
    "WIDTH",
    "CurveStyle",
    "Layout",
    "LegendEntry",
    "Theme",
    "abbreviate",
    "add_legend",
    "apply_theme",
    "drawing_context",
    "legend_height",
    "missing_glyphs",
    "new_figure",
    "pdf",
    "plain_number",
    "png",
    "set_log_ticks",
    "svg",
    "write_caption",
]

FONT: Final = "DejaVu Sans"
"""Bundled with matplotlib, so figures are the same on every machine."""

WIDTH: Final = 10.4
"""Width of a figure in inches."""

NARROW_WIDTH: Final = 3.55
"""Width of a figure for a phone in inches: 341 CSS pixels, so that nothing is scaled down at 390."""

CAPTION_CHARACTERS: Final = 168 / WIDTH
"""Characters per line of a caption, per inch."""

MIN_WIDE: Final = 6.0
"""Width in inches from which panels are side by side, with a legend to their right."""

LEGEND_LINE: Final = 0.19
"""Height in inches of a legend's line below stacked panels."""

CAPTION_LINE: Final = 0.16
"""Height of a line of the caption in inches."""

MAX_LABEL, MAX_LINE = 56, 30
"""Characters of a label, beyond which it is abbreviated, and of a line of a legend."""

FEW_DECADES: Final = 1.5
"""A logarithmic axis of at most this many decades also has labels at 2 and 5 times a power of ten."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Width of a figure, sizes of its text in points, and what fits into it. The defaults are those of a page."""

    width: float = WIDTH
    """Width in inches."""

    height: float = 1.0
    """Factor of the heights of panels."""

    title: float = 10.5
    label: float = 9.0
    """Size of the labels of axes."""

    tick: float = 8.5
    """Size of the numbers at axes, of names in dot plots and of legends."""

    note: float = 8.5
    line: float = 1.0
    """Factor of the widths of lines and the sizes of markers."""

    max_label: int = MAX_LABEL
    """Characters of a name in a dot plot; a longer one is abbreviated."""

    max_title: int = 60
    """Characters of a line of a title."""

    is_paper: bool = False
    """Whether it is printed at its size, with the legend below."""


SMALLEST: Final = 7.0
"""Smallest text in print, in points."""

PAPER: Final = {
    name: Layout(
        width=width, height=0.62, title=8.0, label=7.5, tick=SMALLEST, note=SMALLEST, line=0.65, max_label=max_label,
        max_title=max_title, is_paper=True,
    )
    for name, width, max_label, max_title in (("single", 3.25, 24, 40), ("double", 6.75, 36, 34))
}  # fmt: skip
"""Layouts of figures for one and for two columns of a paper."""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colors of light or dark mode, to which curves refer by name, and the layout of the figure."""

    background: str
    foreground: str
    muted: str
    grid: str
    colors: Mapping[str, str]
    layout: Layout = Layout()

    @property
    def is_narrow(self) -> bool:
        """Whether panels are stacked, with the legend below them."""
        return self.layout.width < MIN_WIDE

    def narrow(self) -> Theme:
        """The same colors in a figure for a phone."""
        return replace(self, layout=Layout(width=NARROW_WIDTH, max_label=22, max_title=42))

    def paper(self, columns: str) -> Theme:
        """The same colors in a figure for a paper, "single" or "double"."""
        return replace(self, layout=PAPER[columns])


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
VARIANTS: Final = THEMES | {f"narrow-{name}": theme.narrow() for name, theme in THEMES.items()}
"""Every form of a figure on a page, which shows the one for the window and the mode."""

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

    layout = theme.layout
    lines = wrap(caption, round(CAPTION_CHARACTERS * layout.width))
    total = height * layout.height + (CAPTION_LINE * len(lines) + 0.15 if lines else 0.0)
    figure = Figure(figsize=(layout.width, total), facecolor=theme.background, layout="constrained")
    pads = {"w_pad": 0.03 if theme.is_narrow or layout.is_paper else 0.1, "h_pad": 0.03 if layout.is_paper else 0.08}
    figure.get_layout_engine().set(**pads)  # type: ignore[union-attr]
    if lines:
        write_caption(figure, "\n".join(lines), theme)
    return figure


def write_caption(figure: Figure, caption: str, theme: Theme) -> None:
    """Add small text at the bottom of the figure."""
    text = figure.supxlabel(
        caption, x=0.008, ha="left", fontsize=8, color=theme.muted, linespacing=1.35, multialignment="left"
    )
    text.set_parse_math(False)


def apply_theme(
    axes: Axes, title: str, theme: Theme, *, x_label: str = "Round", y_label: str = "", has_labels: bool = False
) -> None:
    """Set title, axis labels, a thin grid and two spines; `has_labels` if names of rows take a part of the width."""
    layout, color = theme.layout, theme.foreground
    is_wrapped = theme.is_narrow or layout.is_paper
    lines = wrap(title, layout.max_title // (2 if has_labels and theme.is_narrow else 1)) if is_wrapped else []
    shown = "\n".join(lines) if lines else abbreviate(title, layout.max_title)
    axes.set_facecolor(theme.background)
    axes.set_title(shown, loc="left", fontsize=layout.title, color=color, pad=9 * layout.line, parse_math=False)
    axes.set_xlabel(x_label, fontsize=layout.label, color=color, parse_math=False)
    axes.set_ylabel(y_label, fontsize=layout.label, color=color, parse_math=False)
    axes.grid(visible=True, color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=theme.muted, labelsize=layout.tick, length=3, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.muted)
        spine.set_linewidth(0.6)


def add_legend(target: Figure | Axes, entries: Sequence[LegendEntry], theme: Theme) -> None:
    """Place a legend to the right of a figure or of one panel; in a narrow figure and in a paper below it."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    if not entries:
        return
    layout = theme.layout
    handles = [
        Line2D([], [], color=theme.colors[entry.color], marker=entry.marker, linestyle=entry.line,
               linewidth=1.8 * layout.line, markersize=5 * layout.line, markerfacecolor=theme.background)
        for entry in entries
    ]  # fmt: skip
    # Texts are set afterwards: matplotlib leaves labels that begin with an underscore out of a legend.
    names = [str(number) for number in range(len(entries))]
    options: dict[str, Any] = {
        "frameon": False, "fontsize": layout.tick, "labelcolor": theme.foreground, "handlelength": 1.7
    }  # fmt: skip
    if layout.is_paper:
        options |= {"ncols": _legend_columns(entries, layout), "columnspacing": 1.2, "labelspacing": 0.3}
    if isinstance(target, Figure):
        below = "outside lower center" if layout.is_paper else "outside lower left"
        options["loc"] = below if theme.is_narrow or layout.is_paper else "outside right upper"
        legend = target.legend(handles, names, **options)
    else:
        corner = (0.0, -0.26) if layout.is_paper else (0.0, -0.2) if theme.is_narrow else (1.0, 1.0)
        options |= {"bbox_to_anchor": corner, "borderaxespad": 0.0}
        legend = target.legend(handles, names, loc="upper left", **options)
    for text, entry in zip(legend.get_texts(), entries, strict=True):
        text.set_parse_math(entry.is_math)
        text.set_text(entry.label if entry.is_math else "\n".join(_lines(entry.label, theme)))


def _lines(label: str, theme: Theme) -> list[str]:
    return wrap(abbreviate(label), MAX_LABEL if theme.is_narrow and not theme.layout.is_paper else MAX_LINE)


def _legend_columns(entries: Sequence[LegendEntry], layout: Layout) -> int:
    """Columns of a legend below a figure: as many as the longest entry leaves room for."""
    longest = max(min(len(abbreviate(entry.label)), MAX_LINE) for entry in entries)
    width = 0.62 * layout.tick * longest + 4.0 * layout.tick  # in points: a letter is about 0.62 of its size wide
    return max(1, min(len(entries), int(72 * layout.width / width)))


def legend_height(entries: Sequence[LegendEntry], theme: Theme) -> float:
    """Inches that a legend adds to the height of a figure."""
    n_lines = sum(len(_lines(entry.label, theme)) for entry in entries)
    if theme.layout.is_paper and entries:
        return 1.25 * LEGEND_LINE * n_lines / _legend_columns(entries, theme.layout)
    return LEGEND_LINE * n_lines if theme.is_narrow else 0.0


def set_log_ticks(axis: Axis) -> None:
    """Label a logarithmic axis whose limits are set: powers of ten, and 2 and 5 between them on a short axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if log10(high / low) <= FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """A number of a logarithmic axis, without letters that are smaller than the others.

    >>> plain_number(0.01), plain_number(10_000), plain_number(1e6), plain_number(2e-5)
    ('0.01', '10,000', '10⁶', '2 · 10⁻⁵')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.6g}".replace("-", "−")
    factor, power = f"{value:e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if float(factor) == 1 else f"{float(factor):g} · 10{raised}".replace("-", "−")


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
        Origin of the figure, stored in the metadata of the file, as is the size of its smallest text.
    """
    from matplotlib.text import Text

    text = _save(figure, "svg", metadata={"Date": None, "Creator": None, "Source": source}).decode()
    # Known only now: drawing makes the labels of the axes.
    sizes = [label.get_fontsize() for label in figure.findobj(Text) if label.get_visible() and label.get_text().strip()]
    described = f"<dc:description>smallest text: {min(sizes):g} pt</dc:description>\n    " if sizes else ""
    return text.replace("<dc:format>", f"{described}<dc:format>", 1)


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
