"""Texts with a class each: find those of the wanted class by similarity, or guess the class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from kernelbandits.environments.base import Environment
from kernelbandits.environments.candidates import Candidates
from kernelbandits.environments.catalogue import FixedCatalogue
from kernelbandits.environments.classification import Classification
from kernelbandits.environments.columns import one_of
from kernelbandits.environments.datasets.files import Path, read_table
from kernelbandits.errors import InvalidParameter

__all__ = ["agnews", "newsfeeds", "splice"]

Task: TypeAlias = Literal["candidates", "catalogue", "classification"]


def newsfeeds(
    path: Path,
    *,
    wanted: str = "tech",
    column: Literal["topic", "language"] = "topic",
    task: Task = "candidates",
    n_actions: int = 20,
    **options: Any,
) -> Environment:
    """News feeds, known by their links before they are fetched: find those on the wanted topic.

    Parameters
    ----------
    path
        CSV file with the columns feed_url, topic, language.
    wanted, column
        Feeds with this entry in this column pay 1, all others 0.
    task, n_actions, **options
        As of `agnews`.

    References
    ----------
    The table of feeds in the Python package newscatcher 0.2.0.
    """
    one_of(column, Literal["topic", "language"], "The column of the wanted feeds")
    columns = read_table(path, name="newsfeeds", words=("feed_url", column))
    return _as_task(columns["feed_url"].tolist(), columns[column].tolist(), task, [wanted], n_actions, options)


def agnews(
    path: Path,
    *,
    wanted: str = "Sports",
    shown: Literal["title", "description"] = "title",
    task: Task = "candidates",
    n_actions: int = 10,
    **options: Any,
) -> Environment:
    """News in four classes (World, Sports, Business, Sci/Tech): find those of the wanted class by their titles.

    Parameters
    ----------
    path
        CSV file with the columns class, title, description.
    wanted
        Class that pays 1; all others pay 0.
    shown
        The text that a policy sees.
    task
        "candidates": a few texts a round (`Candidates`). "catalogue": all of them in every round (`FixedCatalogue`,
        without noise unless told). "classification": a text a round, a class an action (`Classification`, pairs).
    n_actions
        Candidates of a round.
    **options
        Further parameters of the world that the task makes.

    References
    ----------
    Zhang, Zhao and LeCun (2015), AG News.
    """
    one_of(shown, Literal["title", "description"], "The text that is shown")
    columns = read_table(path, name="agnews", words=("class", shown))
    return _as_task(columns[shown].tolist(), columns["class"].tolist(), task, [wanted], n_actions, options)


def splice(
    path: Path,
    *,
    wanted: Literal["junction", "EI", "IE", "N"] = "junction",
    task: Task = "classification",
    n_actions: int = 20,
    **options: Any,
) -> Environment:
    """DNA sequences of 60 letters: a splice junction of either kind (EI, IE) in their middle, or none (N).

    Parameters
    ----------
    path
        CSV file with the columns class, sequence.
    wanted
        Class that pays 1 where sequences are candidates or a catalogue; "junction" is EI or IE.
    task, n_actions, **options
        As of `agnews`.

    References
    ----------
    Molecular Biology (Splice-junction Gene Sequences), UCI Machine Learning Repository.
    """
    columns = read_table(path, name="splice", words=("class", "sequence"))
    good = ["EI", "IE"] if wanted == "junction" else [wanted]
    return _as_task(columns["sequence"].tolist(), columns["class"].tolist(), task, good, n_actions, options)


def _as_task(
    texts: Sequence[str], classes: Sequence[str], task: Task, wanted: Sequence[str], n_actions: int, options: Any
) -> Environment:
    one_of(task, Task, "The task")
    if task == "classification":
        return Classification(texts, classes, **{"encoding": "pairs", **options})
    unknown = sorted(set(wanted) - set(classes))
    if unknown:
        raise InvalidParameter(f"Nothing here is of class {unknown[0]!r}. There are {sorted(set(classes))}.")
    values = np.isin(np.array(classes), wanted).astype(np.float64)
    if task == "catalogue":
        return FixedCatalogue(texts, values, **{"noise_scale": 0.0, **options})
    return Candidates(texts, values, n_actions=n_actions, **options)
