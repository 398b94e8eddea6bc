"""Logged recommendations of a fashion shop."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kernelbandits.environments.columns import encode_columns
from kernelbandits.environments.datasets.files import Path, read_header, read_table
from kernelbandits.environments.log import Log
from kernelbandits.errors import ForeignFile, InvalidParameter
from kernelbandits.types import Matrix, Pairs, Points

__all__ = ["open_bandit"]

AFFINITY: Final = "user-item_affinity_"
USER_COLUMNS: Final = tuple(f"user_feature_{place}" for place in range(4))
ITEM_WORDS: Final = tuple(f"item_feature_{place}" for place in range(1, 4))
ITEM_NUMBERS: Final = ("item_id", "item_feature_0")
POSITIONS: Final = (1, 2, 3)


def open_bandit(
    path: Path, *, item_context: Path | None = None, user_context: bool = False, position: int | None = None
) -> Log:
    """Logged decisions of the Open Bandit Dataset: which item was shown, with which probability, and was it clicked.

    Every round has the same items, named by their ids; how many there are is told by the columns of affinities. A page
    had three positions, and each is a decision of its own here. The probability given is that of the item at that
    position, so an estimate over all positions is about a rule that chooses for each alike.

    Parameters
    ----------
    path
        CSV file with the columns item_id, position, click, propensity_score, user_feature_0 to 3 and
        user-item_affinity_0, …
    item_context
        CSV file that describes the items: item_id, item_feature_0 to 3. Items become rows, the first feature
        standardised and an indicator for each value of the others. None: items are their ids. Features are hashed, and
        otherwise in the files of the other logging rule: take the file that belongs to the log.
    user_context
        True: rounds are `Pairs(user, items)`, the user as indicators of the hashed features.
    position
        1, 2 or 3: only what was shown there.

    Examples
    --------
    `log = open_bandit("obd/random_men.csv.gz", item_context="obd/item_context_men_random.csv")`

    References
    ----------
    Saito, Aihara, Matsutani and Narita (2021), Open Bandit Dataset and Pipeline.
    """
    if position is not None and position not in POSITIONS:
        raise InvalidParameter(f"A page has the positions {list(POSITIONS)}, got {position!r}. None takes all.")
    n_items = sum(column.startswith(AFFINITY) for column in read_header(path, name="obd"))
    numbers = ("item_id", "position", "click", "propensity_score", f"{AFFINITY}{max(n_items - 1, 0)}")
    columns = read_table(path, name="obd", words=USER_COLUMNS, numbers=numbers)
    items: Points = list(range(n_items)) if item_context is None else _item_rows(item_context, n_items)
    users = encode_columns({name: columns[name] for name in USER_COLUMNS}, categories="one_hot")
    rows = np.flatnonzero(np.full(len(users), True) if position is None else columns["position"] == position)
    rounds: list[Any] = [Pairs(users[row], items) if user_context else items for row in rows]
    ids = list(range(n_items))
    return Log(
        rounds,
        columns["item_id"][rows].astype(np.intp),
        columns["propensity_score"][rows],
        columns["click"][rows],
        [ids] * len(rows),
    )


def _item_rows(path: Path, n_items: int) -> Matrix:
    columns = read_table(path, name="obd items", words=ITEM_WORDS, numbers=ITEM_NUMBERS)
    order = np.argsort(columns["item_id"])
    if not np.array_equal(columns["item_id"][order], np.arange(n_items)):
        raise ForeignFile(
            f"The log has items 0 to {n_items - 1}, and the file of items describes {len(order)} others. Take the one "
            "of the same campaign."
        )
    rows = encode_columns(
        {name: columns[name][order] for name in columns if name != "item_id"}, categories="one_hot", scaling="standard"
    )
    rows.setflags(write=False)  # every round shows the same
    return rows
