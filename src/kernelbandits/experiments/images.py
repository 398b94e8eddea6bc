"""Figures as files: the same figure always gives the same bytes."""

from __future__ import annotations

from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from kernelbandits.experiments.letters import letters_as_boxes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["pdf", "png", "svg"]


def png(figure: Figure, *, dots_per_inch: int = 200) -> bytes:
    """The figure as the bytes of a PNG file."""
    buffer = BytesIO()
    with letters_as_boxes():
        figure.savefig(buffer, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure, *, source: str | None = None) -> str:
    """The figure as SVG, letters drawn as shapes; equal figures give equal text.

    Parameters
    ----------
    source
        What the figure was made of, for those who read the file; nothing is said where it is None.
    """
    from matplotlib import rc_context

    buffer = StringIO()
    with letters_as_boxes(), rc_context({"svg.fonttype": "path", "svg.hashsalt": "kernelbandits"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Source": source})
    return buffer.getvalue()


def pdf(figure: Figure) -> bytes:
    """The figure as the bytes of a PDF file, fonts embedded as TrueType, which journals ask for."""
    from matplotlib import rc_context

    buffer = BytesIO()
    with letters_as_boxes(), rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return buffer.getvalue()
