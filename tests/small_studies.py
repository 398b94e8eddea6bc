"""Studies small enough for tests, and worlds and policies that misbehave."""

import os
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import numpy as np

from kernelbandits.environments import Clustered, DrawnRounds, Round
from kernelbandits.experiments.policy_spec import Grid, PolicySpec
from kernelbandits.experiments.study import Study
from kernelbandits.kernels import Gaussian
from kernelbandits.policies import KernelUCB, Mixed, UniformRandom

KERNEL = Gaussian(length_scale=0.3)


def small_study(**changes):
    values = {
        "name": "small",
        "environments": {"groups": Clustered(n_actions=4)},
        "policies": {
            "KernelUCB": PolicySpec(KernelUCB, KERNEL, exploration=0.3, regularization=Grid(0.5, 2.0)),
            "Random": PolicySpec(UniformRandom),
        },
        "horizon": 23,
        "seeds": [3, 8],
        "every": 5,
    }
    return Study(**{**values, **changes})


def mixed(rng):
    return Mixed(KernelUCB(KERNEL, exploration=0.3), epsilon=0.2, seed=rng)


def failing(rng):
    return FailsLater(seed=rng)


class FailsLater(UniformRandom):
    """Raises in its ninth round."""

    def _pick(self, actions):
        if self.round_index == 9:
            raise ZeroDivisionError("nine is too many")
        return super()._pick(actions)


@dataclass(frozen=True)
class Unknowing:
    """A world of `length` rounds that does not know expected rewards."""

    length: int = 7
    reward_range = (0.0, 1.0)

    def start(self, rng):
        return DrawnRounds((Round(rng.random((3, 2))), rng.random(3)) for _ in range(self.length))

    def describe(self):
        return {"class": "Unknowing", "length": self.length}


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "jobs").iterdir())}


def rows_of_gram(kernel, points, horizon, regularization):
    """Effective dimension by its definition: every repeat written out."""
    mu = np.sort(np.linalg.eigvalsh(kernel.gram(np.array(points))))[::-1]
    for j in range(1, len(mu) + 1):
        if j * regularization * np.log(horizon) >= mu[j:].sum():
            return j
    return len(mu)


def deadly(rng):
    return KillsItsProcess(seed=rng)


@dataclass(frozen=True)
class DiesOnArrival(Clustered):
    """A world that ends processes that it is sent to, before they begin a job: one for every file in its folder."""

    folder: str = ""

    def __reduce__(self):
        return _arrived, (self.n_actions, self.folder)


def _arrived(n_actions, folder):
    for path in sorted(Path(folder).iterdir()):
        try:
            path.unlink()
        except FileNotFoundError:  # another process took it
            continue
        os._exit(9)
    return DiesOnArrival(n_actions=n_actions, folder=folder)


class KillsItsProcess(UniformRandom):
    """Ends the process it is in, in its third round, without a word."""

    def _pick(self, actions):
        if self.round_index == 3:
            os._exit(7)
        return super()._pick(actions)


@dataclass(frozen=True)
class LastJobKills:
    """Two jobs: the second one ends its process, once the first one is known to be finished."""

    file: str
    n_jobs: int = 2
    n_rounds: int = 5

    def __call__(self, number, on_round=None):
        if number:
            while not Path(self.file).exists():
                sleep(0.01)
            os._exit(7)
        return "done"
