"""The study's table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from kernelbandits.errors import InvalidParameter
from kernelbandits.experiments.markdown import aligned_table
from kernelbandits.experiments.terminal import duration

__all__ = ["Standing", "markdown_table", "parts_of_page", "put_into_page", "standing_cells"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One policy on all problems."""

    name: str
    family: str
    regret: Mapping[str, float]
    """Mean cumulative regret at the end, by problem."""

    half_width: Mapping[str, float]
    """Half the length of its confidence interval; nan with one seed."""

    seconds_per_round: float
    """To choose and to learn, on average over problems, seeds and rounds."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; unknown ones are None."""
        return {
            "name": self.name,
            "family": self.family,
            "regret": dict(self.regret),
            "half_width": {name: None if isnan(value) else value for name, value in self.half_width.items()},
            "seconds_per_round": self.seconds_per_round,
        }


def standing_cells(standing: Standing) -> list[str]:
    """A row as people read it: name, family, regret with interval on each problem, time a round."""
    regrets = [
        f"{standing.regret[problem]:.0f}" + ("" if isnan(half) else f" ± {half:.0f}")
        for problem, half in standing.half_width.items()
    ]
    return [standing.name, standing.family, *regrets, duration(standing.seconds_per_round)]


def markdown_table(standings: Sequence[Standing], caption: str) -> str:
    """A table that lines up, numbers to the right, with its caption above."""
    problems = list(standings[0].regret)
    rows = [["policy", "family", *problems, "time a round"], *map(standing_cells, standings)]
    return f"{caption}.\n\n{aligned_table(rows, n_words=2)}\n"


def put_into_page(page: Path, table: str) -> None:
    """Replace what stands between the two marks of a page, `<!-- table … -->` and `<!-- end of table -->`."""
    before, after = parts_of_page(page)
    page.write_text(f"{before}\n{table}\n{after}", encoding="utf-8")


def parts_of_page(page: Path) -> tuple[str, str]:
    """What stands before and after the place of the table, marks included, or InvalidParameter."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(f"The page {str(page)!r} cannot be read: {error.strerror}. Name another.") from error
    place = re.search(r"(?s)(<!-- table.*?-->\n).*?(<!-- end of table -->)", text)
    if place is None:
        raise InvalidParameter(
            f"The page {str(page)!r} has no place for a table: <!-- table --> <!-- end of table -->."
        )
    return text[: place.end(1)], text[place.start(2) :]
