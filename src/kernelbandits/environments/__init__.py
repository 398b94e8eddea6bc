"""Environments: they provide contexts, and a reward for the chosen action.

An environment is an immutable description; `start` creates one run of it, a world, from a random generator. The noise
of a round is drawn for every action before any is chosen. Two policies that start from the same seed therefore get the
same contexts and the same noise, and a difference between their results is a difference between policies.

Start with `SyntheticRKHS`: a random function of exactly known norm, which satisfies every assumption of the theorems.
Data also define environments: `Classification` (one row per round, one action per class), `FixedCatalog` (all items in
every round, each with its value), `Candidates` (a few of the items per round). `datasets` reads published data sets,
`from_file` by name. `Drifting` changes from one environment to another, abruptly or gradually; `Delayed` delays
rewards; `Logged` replays logged decisions. Environments of published experiments: `Bump`, `Chessboard` and
`StepDiagonal`, `Wheel`, `InnerSquare`, `QuadraticForm` and `CosineWave`. To define your own environment, pass a
generator of rounds to `DrawnRounds`, and derive your tests from `kernelbandits.testing.EnvironmentContract`.
"""

from kernelbandits.environments.base import DrawnRounds, Environment, Round, World
from kernelbandits.environments.catalog import Candidates, CatalogWorld, FixedCatalog, scaled_values
from kernelbandits.environments.classification import Classification
from kernelbandits.environments.datasets import from_file
from kernelbandits.environments.logged import Log, Logged, LoggedWorld, click_rewards
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
    "click_rewards",
    "encode_columns",
    "from_file",
    "scaled_values",
]
