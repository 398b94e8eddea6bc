"""Which setting does best: a ranking by simulation, or on a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import isnan
from os import PathLike
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, Protocol

import numpy as np

from kernelbandits.environments.base import Environment
from kernelbandits.environments.logged import Log
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.experiments.policy_spec import Contender, Entrant, MakePolicy, entrants_of
from kernelbandits.experiments.results import Standing
from kernelbandits.experiments.runner import run
from kernelbandits.experiments.study import Study, checked_seeds
from kernelbandits.policies.base import Policy
from kernelbandits.selection import Catalog, CatalogView
from kernelbandits.types import Pairs, Parameters, Points
from kernelbandits.validation import check_float, check_has_methods, check_mapping, check_seed, pluralize

__all__ = ["Estimator", "Ranking", "Setting", "tune"]

PLACE: Final = "world"


class _Judged(Protocol):
    """An estimate, as far as a ranking needs it."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


class Estimator(Protocol):
    """Judges a policy on a log; the policy does not learn meanwhile."""

    def estimate(self, log: Log, policy: Policy) -> _Judged:
        """Its value, with an interval."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting in a ranking."""

    label: str
    parameters: Parameters
    """The grid values, by dotted name."""

    score: float
    low: float
    high: float
    """Ends of the 95 % interval of the score; nan with one seed."""

    rank: int
    """From 1, the best."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """Settings, best first."""

    score: str
    """What the scores are: "regret", "reward", or "value" on a log."""

    settings: tuple[Setting, ...]
    make: Mapping[str, Entrant]
    """How to make the policy of each, by label."""

    def best(self, seed: int = 0) -> Policy:
        """A fresh policy with the best setting."""
        return self.make[self.settings[0].label].fresh(check_seed(seed))

    def to_dict(self) -> dict[str, Any]:
        """Plain values; unknown ones are None."""
        rows = [
            {name: None if isinstance(value, float) and isnan(value) else value for name, value in vars(row).items()}
            for row in self.settings
        ]
        return {"score": self.score, "settings": rows}


def tune(
    candidates: Contender | Mapping[str, Contender | MakePolicy],
    *,
    on: Environment | Log,
    horizon: int | None = None,
    seeds: int | Sequence[int] = 10,
    by: Literal["regret", "reward"] | None = None,
    into: str | PathLike[str] | None = None,
    workers: int | None = 1,
    estimator: Estimator | None = None,
    learn_share: float = 0.5,
    progress: Callable[[int, int], None] | None = None,
) -> Ranking:
    """Rank settings: in a simulated world by regret or reward, or on a log by an estimate of their value.

    In a world every setting plays all seeds, under each of which all meet the same luck. On a log every setting learns
    from the first part by `warm_start`, and the estimator judges what it would do in the rest. A ranking picks the
    luckiest as well as the best: judge the winner on seeds, or on a log, that did not choose it.

    Parameters
    ----------
    candidates
        A contender with grids, or several by name.
    on
        A world, or a log.
    horizon, seeds
        Rounds and seeds of the runs in a world; a log needs no horizon, and its first seed is for policies that draw.
    by
        "regret" (lowest first) or "reward" (highest first) in a world; None: regret where the world knows it.
    into
        Folder for the results in a world, so that tuning can be interrupted too; None keeps nothing.
    workers
        Processes; None: one a processor.
    estimator
        For a log: whatever has `estimate(log, policy)` with `value`, `low` and `high`.
    learn_share
        For a log: the share of its rounds, from the first on, to learn from.
    progress
        As in `run`.

    Examples
    --------
    >>> import kernelbandits as kb
    >>> from kernelbandits.experiments import Contender, Grid, tune
    >>> kernel = kb.kernels.Gaussian(length_scale=0.3)
    >>> world = kb.environments.SyntheticRKHS(kernel, n_actions=5, n_features=1)
    >>> ranking = tune(Contender(kb.KernelUCB, kernel, exploration=Grid(0.05, 50.0)), on=world, horizon=60, seeds=3)
    >>> [setting.parameters["exploration"] for setting in ranking.settings]
    [0.05, 50.0]
    """
    if isinstance(candidates, Contender):
        candidates = {getattr(candidates.make, "__name__", "policy"): candidates}
    if isinstance(on, Log):
        if by is not None or into is not None:
            raise InvalidParameter(
                "On a log settings are ranked by their value, and no file is kept. Leave out `by` and `into`."
            )
        return _tuned_on_log(candidates, on, estimator, learn_share, seeds)
    if estimator is not None:
        raise InvalidParameter(
            "An estimator judges policies on a log; a world tells their reward itself. Leave it out."
        )
    if horizon is None:
        raise InvalidParameter("Tuning in a world needs the number of rounds: horizon=500.")
    if not isinstance(by, str | None) or by not in (None, "regret", "reward"):
        raise InvalidParameter(f"Settings are ranked by 'regret' or by 'reward', got {by!r}.")
    study = Study(
        name="tuning",
        environments={PLACE: on},
        policies=candidates,
        horizon=horizon,
        seeds=seeds,  # type: ignore[arg-type]  # a number says how many
        every=horizon,
    )
    with TemporaryDirectory() if into is None else nullcontext(into) as folder:
        standings = run(study, folder, workers=workers, progress=progress).summary()
    return _ranked_by_standings(study.entrants, standings, by)


def _ranked_by_standings(
    entrants: Sequence[Entrant], standings: Sequence[Standing], by: Literal["regret", "reward"] | None
) -> Ranking:
    is_known = not any(isnan(standing.regret.mean) for standing in standings)
    if by == "regret" and not is_known:
        raise InvalidParameter(
            "This world does not know its expected rewards, so there is no regret. Take by='reward'."
        )
    by = by or ("regret" if is_known else "reward")
    scores = {}
    for standing in standings:
        end = standing.regret if by == "regret" else standing.total_reward
        scores[standing.policy] = (end.mean, end.mean - end.half_width, end.mean + end.half_width)
    return _ranking(entrants, scores, by, is_best_lowest=by == "regret")


def _ranking(
    entrants: Sequence[Entrant], scores: Mapping[str, tuple[float, float, float]], by: str, *, is_best_lowest: bool
) -> Ranking:
    sign = 1.0 if is_best_lowest else -1.0

    def place_of(entrant: Entrant) -> tuple[bool, float]:
        score = scores[entrant.label][0]
        return isnan(score), sign * score  # of whom nothing is known comes last

    ordered = sorted(entrants, key=place_of)
    settings = []
    for place, entrant in enumerate(ordered, start=1):
        score, low, high = scores[entrant.label]
        settings.append(
            Setting(label=entrant.label, parameters=entrant.parameters, score=score, low=low, high=high, rank=place)
        )
    return Ranking(score=by, settings=tuple(settings), make={entrant.label: entrant for entrant in entrants})


def _tuned_on_log(
    candidates: Mapping[str, Contender | MakePolicy],
    log: Log,
    estimator: Estimator | None,
    learn_share: float,
    seeds: int | Sequence[int],
) -> Ranking:
    if estimator is None:
        raise InvalidParameter("Tuning on a log needs an estimator: an object with estimate(log, policy).")
    check_has_methods(estimator, "The estimator", "estimate", hint="SelfNormalizedIPS() is one.")
    check_mapping(candidates, "Candidates", "Or give one: Contender(KernelUCB, kernel, exploration=Grid(0.1, 1.0)).")
    n_learnt = int(_a_share(learn_share) * len(log))
    if not 0 < n_learnt < len(log):
        raise InvalidParameter(
            f"A log is split into a part to learn from and one to judge on, got {pluralize(len(log), 'round')} and "
            f"learn_share={learn_share!r}."
        )
    entrants, seed = entrants_of(candidates), checked_seeds(seeds)[0]
    scores = {}
    for entrant in entrants:
        policy = entrant.fresh(seed)
        _learn(policy, log[:n_learnt])
        judged = estimator.estimate(log[n_learnt:], policy)
        scores[entrant.label] = (float(judged.value), float(judged.low), float(judged.high))
    return _ranking(entrants, scores, "value", is_best_lowest=False)


def _a_share(value: float) -> float:
    share = check_float(value, "The share to learn from")
    if not 0.0 < share < 1.0:
        raise InvalidParameter(f"The share to learn from lies strictly between 0 and 1, got {value!r}.")
    return share


def _learn(policy: Policy, log: Log) -> None:
    """Take in what was shown and what it paid, a round at a time."""
    for t, action in enumerate(log.actions.tolist()):
        ids = log.ids_of(t)
        policy.warm_start(
            _one_point(log.rounds[t], action), [log.rewards[t]], ids=None if ids is None else [ids[action]]
        )


def _one_point(contexts: Points, action: int) -> Points:
    """One action of a round, as a round of one."""
    if isinstance(contexts, Catalog | CatalogView):
        raise NotSupported("Tuning learns from logged rounds of points; a catalog has to be written out first.")
    if isinstance(contexts, Pairs):
        return Pairs(contexts.context, _one_point(contexts.actions, action))
    if hasattr(contexts, "shape"):
        return contexts[np.array([action])]
    return [contexts[action]]
