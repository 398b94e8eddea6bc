"""Tables with a value in each row, as fixed catalogues."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from kernelbandits.environments.catalogue import FixedCatalogue
from kernelbandits.environments.columns import one_of
from kernelbandits.environments.datasets.files import Path, read_header, read_table
from kernelbandits.environments.values import ValueScale, scaled_values

__all__ = ["abalone", "onlinenews"]

ABALONE_NUMBERS: Final = (
    "length", "diameter", "height", "whole_weight", "shucked_weight", "viscera_weight", "shell_weight", "rings",
)  # fmt: skip

Shown: TypeAlias = Literal["numbers", "url", "words"]

NO_FEATURES: Final = frozenset({"url", "timedelta", "shares"})
"""Columns of onlinenews that are a name, the age of the article when it was counted, and what is to be found out."""


def abalone(path: Path, **options: Any) -> FixedCatalogue:
    """Shells of 4,177 animals: find the oldest, by sex and 7 measures; the value is the number of rings in [0, 1].

    Parameters
    ----------
    path
        CSV file with the columns sex, length, diameter, height, whole_weight, shucked_weight, viscera_weight,
        shell_weight, rings.
    **options
        As of `FixedCatalogue.from_frame`. Standardised columns, sex as a code among them, noise 0.1 unless told.

    References
    ----------
    Nash, Sellers, Talbot, Cawthorn and Ford (1994), Abalone, UCI Machine Learning Repository. Calandriello et al.
    (2020), BBKB, for the bandit.
    """
    columns = read_table(path, name="abalone", words=("sex",), numbers=ABALONE_NUMBERS)
    return FixedCatalogue.from_frame(columns, value="rings", **options)


def onlinenews(
    path: Path, *, shown: Shown = "numbers", values: ValueScale = "rank", noise_scale: float = 0.1, **options: Any
) -> FixedCatalogue:
    """News articles: find those that were shared most.

    Parameters
    ----------
    path
        CSV file with the columns url, timedelta, shares and the 58 numbers of the UCI documentation.
    shown
        "numbers": the 58 numbers. "url": the link as a string. "words": the words of the title, as the last part of
        the link has them.
    values
        How shares become rewards: see `FixedCatalogue.from_frame`. A few articles have most shares, so ranks.
    noise_scale
        As of `FixedCatalogue`.
    **options
        For numbers, as of `FixedCatalogue.from_frame`.

    References
    ----------
    Fernandes, Vinagre and Cortez (2015), Online News Popularity, UCI Machine Learning Repository.
    """
    one_of(shown, Shown, "What is shown of an article")
    if shown == "numbers":
        names = [name.strip() for name in read_header(path, name="onlinenews")]
        numbers = ["shares", *(name for name in names if name not in NO_FEATURES)]
        columns = read_table(path, name="onlinenews", words=("url",), numbers=numbers)
        return FixedCatalogue.from_frame(
            columns, value="shares", drop=["url"], values=values, noise_scale=noise_scale, **options
        )
    columns = read_table(path, name="onlinenews", words=("url",), numbers=("shares",))
    links = [str(link) for link in columns["url"]]
    items = links if shown == "url" else [_title(link) for link in links]
    return FixedCatalogue(items, scaled_values(columns["shares"], values), noise_scale=noise_scale, **options)


def _title(link: str) -> str:
    """Words of the last part of a link."""
    return link.rstrip("/").rpartition("/")[2].replace("-", " ")
