"""Worlds to learn in: they show contexts, and pay a reward for the action that was chosen.

An environment is a frozen description; `start` makes one run of it, a world, from a random generator. The luck of a
round is drawn for every action before any is chosen, so two policies that start from the same seed meet the same
contexts and the same luck, and a difference between their results is a difference between policies.

Start with `SyntheticRKHS`: a random function of exactly known norm, where every assumption of the theorems holds.
Data make worlds too: `Classification` (a row a round, a class an action), `FixedCatalog` (every item in every round,
each with its value), `Candidates` (a few of the items a round). `datasets` reads published sets, `from_file` by name.
`Drifting` turns one world into another, at once or gradually; `Delayed` tells rewards late; `Logged` shows decisions
that were made before. Worlds of published experiments: `Bump`, `Chessboard` and `StepDiagonal`, `Wheel`, `InnerSquare`,
`QuadraticForm` and `CosineWave`. To write a world of your own, hand a generator of rounds to `DrawnRounds`, and let
your tests inherit `kernelbandits.testing.EnvironmentContract`.
"""

from kernelbandits.environments.base import DrawnRounds, Environment, Round, World
from kernelbandits.environments.catalog import Candidates, CatalogWorld, FixedCatalog, scaled_values
from kernelbandits.environments.classification import Classification
from kernelbandits.environments.datasets import from_file
from kernelbandits.environments.logged import Log, Logged, LoggedWorld
from kernelbandits.environments.published import (
    Bump,
    Chessboard,
    CosineWave,
    InnerSquare,
    JointSpace,
    QuadraticForm,
    Spherical,
    StepDiagonal,
    Wheel,
)
from kernelbandits.environments.synthetic import Clustered, RKHSFunction, SyntheticRKHS, SyntheticWorld
from kernelbandits.environments.tabular import encode_columns
from kernelbandits.environments.wrappers import Delayed, DelayedWorld, Drifting, DriftingWorld

__all__ = [
    "Bump",
    "Candidates",
    "CatalogWorld",
    "Chessboard",
    "Classification",
    "Clustered",
    "CosineWave",
    "Delayed",
    "DelayedWorld",
    "DrawnRounds",
    "Drifting",
    "DriftingWorld",
    "Environment",
    "FixedCatalog",
    "InnerSquare",
    "JointSpace",
    "Log",
    "Logged",
    "LoggedWorld",
    "QuadraticForm",
    "RKHSFunction",
    "Round",
    "Spherical",
    "StepDiagonal",
    "SyntheticRKHS",
    "SyntheticWorld",
    "Wheel",
    "World",
    "encode_columns",
    "from_file",
    "scaled_values",
]
