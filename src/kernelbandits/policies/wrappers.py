"""Wrapper policies: epsilon-greedy (Mixed), Softmax, and conservative exploration (Guarded)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from kernelbandits._parameters import ValueType, described, one_of, parameter
from kernelbandits._transactions import handles_transaction
from kernelbandits.errors import InvalidContexts, InvalidParameter, NotAssignable, NotSupported
from kernelbandits.kernels import Ids, Kernel, PointKind
from kernelbandits.policies.base import SEED, Policy, Saved
from kernelbandits.policies.explanation import Explanation
from kernelbandits.policies.posterior_policy import ScoredPrediction
from kernelbandits.policies.randomized import ActionDistribution, RandomizedPolicy, drawn
from kernelbandits.policies.rounds import KnownRounds
from kernelbandits.policies.slates import Ranking
from kernelbandits.policies.upper_confidence import ScoreRanking, UpperConfidencePolicy
from kernelbandits.selection import CatalogView
from kernelbandits.selection.actions import Actions
from kernelbandits.selection.ties import pick_tied, tie_probabilities, tied_rows
from kernelbandits.types import Decision, Indices, ItemId, Parameters, Plays, Point, Points, Seed, Selection, Vector
from kernelbandits.validation import as_generator, check_float, check_nonnegative, check_positive, short_repr

__all__ = ["Guarded", "Mixed", "Softmax", "UpperConfidenceWrapper", "WrappedPolicy"]


def _packed(policy: Policy) -> Parameters:
    from kernelbandits.policies.serialization import packed_policy

    return packed_policy(policy)


POLICY: Final = ValueType(lambda policy: policy, described, _packed)
"""The wrapped policy, described and stored completely."""


class WrappedPolicy(Policy):
    """Base class of policies that modify the choice of a wrapped policy, which learns every reward.

    Both share one ledger of learned and pending decisions: they have the same round index, and pending decisions count
    in the widths of the wrapped policy. The wrapper's decisions carry its own fingerprint. The wrapped policy is
    adopted with all that it has learned; it is not copied. Use it only through the wrapper from then on.
    """

    keeps_data_only = True  # nothing: the wrapped policy holds what was learned

    policy: Policy = parameter(POLICY, kw_only=False)

    def _setup(self) -> None:
        policy = self.policy
        if not isinstance(policy, Policy):
            is_class = isinstance(policy, type)
            given = f"the class {policy.__name__}. Call it: {policy.__name__}(…)" if is_class else short_repr(policy)
            raise InvalidParameter(f"{type(self).__name__} wraps a policy, got {given}.")
        if policy._is_outermost:
            name = type(policy).__name__
            raise InvalidParameter(
                f"{name} restricts the actions of every round, so it must be the outermost policy, got "
                f"{type(self).__name__}({name}(…)). Take {name}({type(self).__name__}(…))."
            )
        self._seed_level = policy._seed_level + 1
        super()._setup()
        self._journal = policy._journal  # one lock and one undo log for both
        policy._is_wrapped = True
        self.needs_fixed_actions = policy.needs_fixed_actions
        self._validates_rounds = policy._validates_rounds
        self.learns_from_any_action = policy.learns_from_any_action
        self.accepts_offsets = policy.accepts_offsets
        self.reports_posterior_width = policy.reports_posterior_width
        self._ledger = policy._ledger
        self._has_history = policy._has_history
        self._adopt_model()

    def _adopt_model(self) -> None:
        """Refer to parts of the wrapped policy that it replaces when it is refitted."""
        policy = self.policy
        self._rewards = policy._rewards
        self._is_numbered = policy._is_numbered
        self._has_notes_to_make = policy._has_notes_to_make

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Read a public attribute of the wrapped policy that the wrapper lacks, such as `exploration`."""
            inner = None if name.startswith("_") else vars(self).get("_policy")
            if inner is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return getattr(inner, name)

        def __setattr__(self, name: str, value: Any) -> None:
            if not (name.startswith("_") or hasattr(type(self), name)) and hasattr(vars(self).get("_policy"), name):
                raise NotAssignable(
                    f"{name!r} belongs to the policy that {type(self).__name__} wraps. Change it there: "
                    f"policy.refit({name}=…) for a parameter, or policy.policy.{name} = …."
                )
            object.__setattr__(self, name, value)

    def set_params(self, **changes: Any) -> Self:
        """As in `Policy`. The wrapped policy cannot be replaced: it holds what was learned and who listens."""
        if changes.get("policy", self.policy) is not self.policy:
            raise NotSupported(
                f"{type(self).__name__} keeps the policy that it wraps. Wrap another one: policy.clone(policy=…)."
            )
        return super().set_params(**changes)

    def _check_refit(self, values: Mapping[str, Any]) -> None:
        super()._check_refit(values)
        if values.get("policy", self.policy) is not self.policy:
            raise NotSupported(
                f"{type(self).__name__} keeps the policy that it wraps. Change its parameters by name, or wrap another "
                "one: policy.clone(policy=…)."
            )

    def _refit_with(self, changes: Mapping[str, Any]) -> None:
        own = {name: value for name, value in changes.items() if name in self._declared}
        inner = {name: value for name, value in changes.items() if name not in own}
        self.fingerprint  # noqa: B018 – of the decisions made so far
        if inner:
            self._note_references()
            self.policy._refit_with(inner)
            self._adopt_model()
        if own:
            super()._refit_with(own)

    @property
    @handles_transaction
    def kernel(self) -> Kernel | None:
        """Kernel of the wrapped policy."""
        return self.policy.kernel

    # -- points: as in the wrapped policy --------------------------------------------------------------------------

    def _kind(self, contexts: Points) -> PointKind:
        return self.policy._kind(contexts)

    def _points(self, contexts: Points, ids: Sequence[ItemId] | None) -> Points:
        return self.policy._points(contexts, ids)

    def _catalog_points(self, view: CatalogView) -> Points:
        return self.policy._catalog_points(view)

    def _context(self, points: Points, row: int) -> Point:
        return self.policy._context(points, row)

    def _point(self, decision: Decision) -> Points:
        return self.policy._point(decision)

    def _validate_action_set(self, points: Points) -> None:
        self.policy._validate_action_set(points)

    def _validate_round(self, actions: Actions) -> None:
        self.policy._validate_round(actions)

    def _validate_comparable(self, point: Points) -> None:
        self.policy._validate_comparable(point)

    def _estimate_of(self, actions: Actions, place: int) -> tuple[float, float]:
        return self.policy._estimate_of(actions, place)

    # -- learning: done by the wrapped policy ----------------------------------------------------------------------

    def _note_model(self) -> None:
        self.policy._note_model()

    def _numbers_of(self, decisions: Sequence[Decision]) -> Sequence[int | None]:
        return self.policy._numbers_of(decisions)

    def _validate_decision(self, decision: Decision) -> None:
        self.policy._validate_decision(decision)

    def _update(self, decision: Decision, reward: float) -> None:
        self.policy._update(decision, reward)

    def _update_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        self.policy._update_many(decisions, rewards)

    def _amend_reward(self, decision: Decision, was: float, now: float, number: int | None) -> None:
        self.policy._amend_reward(decision, was, now, number)

    def _remove_reward(self, decision: Decision, reward: float, number: int | None) -> None:
        self.policy._remove_reward(decision, reward, number)

    def _warm_start(self, points: Points, rewards: Vector, times: ArrayLike) -> None:
        self.policy._warm_start(points, rewards, times)

    def _pending_changed(self, decision: Decision, change: int) -> None:
        self.policy._pending_changed(decision, change)

    def _draw_by(self, id: str | None) -> None:
        super()._draw_by(id)
        self.policy._draw_by(id)

    def _note_random(self) -> None:
        super()._note_random()
        self.policy._note_random()

    def reseed(self, seed: Seed = None) -> None:
        """As in `Policy`; the wrapped policy gets its own seed, derived from this one."""
        own, inner = as_generator(seed).spawn(2)
        super().reseed(own)
        self.policy.reseed(inner)

    def explain(self, decision: Decision, *, most: int = 10) -> Explanation:
        """Explain the score of the action under the current model of the wrapped policy."""
        self._require_own(decision)
        return self.policy.explain(replace(decision, policy=""), most=most)

    # -- serialization ---------------------------------------------------------------------------------------------

    @classmethod
    def _build(cls, saved: Saved) -> Policy:
        inner = saved.rebuild(saved.structure["policy"])
        return super()._build(saved._replace(structure={**saved.structure, "policy": inner}))

    def _state(self) -> Parameters:
        return {}  # the wrapped policy is stored completely, as a parameter

    def _restore(self, state: Any) -> None:
        """Do nothing: the state is stored with the wrapped policy."""


def _share(epsilon: float) -> float:
    number = check_float(epsilon, "Epsilon")
    if not 0.0 <= number <= 1.0:  # also catches NaN
        raise InvalidParameter(f"Epsilon is a probability from 0 to 1, got {epsilon!r}. 0.05 is a good start.")
    return number


class Mixed(WrappedPolicy):
    """Epsilon-greedy wrapper: a random action with probability epsilon, the choice of another policy otherwise.

    An action that the wrapped policy selects with probability p is selected with probability (1 − epsilon)
    p + epsilon / N, exactly. No propensity is below epsilon / N, so the log can be used to evaluate other policies.
    Every reward is passed to the wrapped policy. Its update for an action that it did not choose depends on the policy:

    - With one posterior (KernelUCB, LinUCB, GP-UCB, KernelThompson, …) it learns from any action.
    - With levels (SupKernelUCB, SupLinUCB) it learns nothing from an action that no level chose, since each level may
      use only rounds that it explored itself. The round still counts and incurs regret.
    - A policy that declares that it cannot learn from such actions (`learns_from_any_action` is False) is rejected.
      EXP4 is one: its importance weights depend on its own probabilities, and it already mixes in exploration.

    Cost: that of the wrapped policy; if it is randomized, also its probabilities in every random round.

    Parameters
    ----------
    policy
        The wrapped policy; adopted, not copied.
    epsilon
        Probability of a random action, from 0 to 1.
    seed
        Seed of the coin flip and the random actions; the wrapped policy uses its own random state.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> from kernelbandits.policies import KernelUCB
    >>> policy = Mixed(KernelUCB(Gaussian(length_scale=0.3)), epsilon=0.1, seed=0)
    >>> policy.probabilities([[0.0], [0.5], [1.0], [1.5]])
    array([0.925, 0.025, 0.025, 0.025])
    """

    epsilon: float = parameter(_share)
    seed: Seed = parameter(SEED, default=None, is_described=False)

    def _setup(self) -> None:
        if isinstance(self.policy, Policy) and not self.policy.learns_from_any_action:
            raise NotSupported(
                f"{type(self.policy).__name__} cannot be mixed with random actions: it does not say that it learns "
                "rightly from actions that it did not choose. A policy of your own that does sets "
                "learns_from_any_action = True."
            )
        super()._setup()

    def _pick(self, actions: Actions) -> Selection:
        choice, n_actions = self.policy._pick(actions), actions.n_actions
        place = self._random_place(n_actions)
        if place is None:
            return choice._replace(propensity=(1.0 - self.epsilon) * choice.propensity + self.epsilon / n_actions)
        return self._mix(actions, choice, place)

    def _mix(self, actions: Actions, choice: Selection, place: int | None) -> Selection:
        """Return the choice of the wrapped policy, or the action at a random place instead."""
        n_actions = actions.n_actions
        if place is None or place == choice.row:  # the latter is also the choice, so it is learned as one
            return choice._replace(propensity=self._total(choice.propensity, n_actions))
        own = 0.0 if choice.propensity == 1.0 else float(self.policy._probabilities(actions)[place])
        mean, width = self.policy._estimate_of(actions, place)
        return self._random_choice(choice, place, self._total(own, n_actions), mean, width)

    def _random_place(self, n_actions: int) -> int | None:
        """Draw a uniformly random place with probability epsilon, otherwise None."""
        rng = self._random.generator
        return int(rng.integers(n_actions)) if rng.random() < self.epsilon else None

    def _random_choice(self, choice: Selection, row: int, propensity: float, mean: float, width: float) -> Selection:
        """Return the random action that replaces the choice of the wrapped policy."""
        return Selection(row, mean, width, propensity=propensity, memo=choice.memo, cost=choice.cost)

    @property
    def has_compiled_loop(self) -> bool:
        """As in `Policy`: the rounds between two random actions are run by the loop of the wrapped policy."""
        return self.policy.has_compiled_loop

    def _play(self, known: KnownRounds, plays: Plays, rounds: range) -> None:
        self._ledger.count(0)
        self._note_copy()  # instead of one journal entry per round
        notes = self._journal.notes
        n_notes, start, policy = len(notes), rounds.start, self.policy
        places = [self._random_place(known.n_actions(t)) for t in rounds]  # drawn in the order of the rounds
        for t, place in zip(rounds, places, strict=True):
            if place is None and policy.has_compiled_loop and t + 1 < rounds.stop:
                continue  # until the next random action
            stop = t + 1 if place is None else t
            self._play_inside(known, plays, range(start, stop))
            if place is not None:
                self._play_round(known, plays, t, partial(self._pick_at, place=place))
            del notes[n_notes:]
            start = t + 1

    def _play_inside(self, known: KnownRounds, plays: Plays, rounds: range) -> None:
        """Run rounds without a random action."""
        if len(rounds) > 1:
            self.policy._play(known, plays, rounds)
            n_actions = np.array([known.n_actions(t) for t in rounds])
            part = slice(rounds.start, rounds.stop)
            plays.propensity[part] = self._total(plays.propensity[part], n_actions)
        else:
            for t in rounds:
                self._play_round(known, plays, t, partial(self._pick_at, place=None))

    def _pick_at(self, actions: Actions, *, place: int | None) -> Selection:
        return self._mix(actions, self.policy._pick(actions), place)

    def _ranking(self, actions: Actions, *, diverse: bool) -> Ranking:
        return _MixedRanking(self, self.policy._ranking(actions, diverse=diverse))

    def _total(self, own: Any, n_actions: Any) -> Any:
        """Return the probability of an action that the wrapped policy selects with probability `own`."""
        return (1.0 - self.epsilon) * own + self.epsilon / n_actions

    def _probabilities(self, actions: Actions) -> Vector:
        return self._probabilities_batch([actions])[0]

    def _probabilities_batch(self, rounds: Sequence[Actions]) -> list[Vector]:
        found = self.policy._probabilities_batch(rounds)
        return [
            np.asarray((1.0 - self.epsilon) * own + self.epsilon / actions.n_actions)
            for own, actions in zip(found, rounds, strict=True)
        ]


class UpperConfidenceWrapper(WrappedPolicy):
    """Base class of wrappers of a policy that selects the highest mean + exploration · width."""

    policy: UpperConfidencePolicy = parameter(POLICY, kw_only=False)

    def _setup(self) -> None:
        if not isinstance(self.policy, UpperConfidencePolicy):
            raise InvalidParameter(
                f"{type(self).__name__} needs the means and widths of a policy that takes the highest upper confidence "
                f"bound, such as KernelUCB, LinUCB or GPUCB, got {type(self.policy).__name__}."
            )
        super()._setup()

    def _estimate(self, actions: Actions) -> ScoredPrediction:
        """Return mean and width of all eligible actions, and the exploration of this round."""
        return self.policy._scored(actions)


class Softmax(UpperConfidenceWrapper, RandomizedPolicy):
    """Draw actions with probability ∝ exp(score / temperature), score = mean + exploration · width.

    The scores are those of an upper-confidence policy such as KernelUCB or LinUCB. Softmax replaces its argmax by a
    randomized choice with exact propensities; learning is the same. Exploration 0 in the wrapped policy gives Boltzmann
    exploration on the means. A low temperature approximates the wrapped policy, a high one uniform choice. If the
    temperature does not decrease, the regret grows with the number of rounds. Every action of a round is scored:
    O(N m²) after m distinct contexts.

    Parameters
    ----------
    policy
        KernelUCB, LinUCB, GP-UCB or another upper-confidence policy; adopted, not copied.
    temperature
        In units of the reward: scores that differ by `temperature` differ by a factor e in probability.
    seed
        Seed of the draws.

    Examples
    --------
    >>> from kernelbandits.policies import LinUCB
    >>> policy = Softmax(LinUCB(exploration=1.0), temperature=0.5, seed=0)
    >>> policy.probabilities([[1.0], [0.0]]).round(4)
    array([0.8808, 0.1192])
    """

    temperature: float = parameter(
        partial(
            check_positive,
            name="The temperature",
            hint="For the highest score alone take its policy.",
            may_be_tiny=True,
        )
    )
    seed: Seed = parameter(SEED, default=None, is_described=False)

    def _distribution(self, actions: Actions) -> ActionDistribution:
        estimate = self._estimate(actions)
        return ActionDistribution(self._softmax(estimate.scores), estimate.prediction, estimate.scores)

    def _softmax(self, scores: Vector) -> Vector:
        with np.errstate(over="ignore"):  # with a tiny temperature, all weight is on the best
            weights = np.exp((scores - scores.max()) / self.temperature)
        return np.asarray(weights / weights.sum())

    def _ranking(self, actions: Actions, *, diverse: bool) -> Ranking:
        return _SoftmaxRanking(self, self.policy._ranking(actions, diverse=diverse))


def _item_id(baseline: ItemId) -> ItemId:
    try:
        return Ids().check_one(baseline)
    except InvalidContexts as error:
        name = short_repr(baseline)
        raise InvalidParameter(f"The baseline is named by its id, a whole number or a string, got {name}.") from error


class Guarded(UpperConfidenceWrapper):
    """Conservative exploration: select a baseline action unless another is better with confidence.

    The policy deviates from the baseline only for an action whose lower confidence bound exceeds the baseline's upper
    confidence bound by more than `margin`, both at the exploration of the wrapped policy:

        mean − exploration · width  >  baseline's mean + exploration · its width + margin.

    Among such actions it selects the one with the highest upper confidence bound. If the bounds hold, every other
    selected action is better than the baseline by the margin. In a round where the baseline is not eligible, the
    wrapped policy chooses without restriction.

    The policy does not explore: while the baseline is selected, other actions are estimated only through their
    similarity to it. The data have to come from elsewhere: `warm_start` with historical data, or
    `Mixed(Guarded(...), epsilon=0.05)`, which explores in a known fraction of the rounds. Every action of a round is
    scored: O(N m²) after m distinct contexts.

    Parameters
    ----------
    policy
        KernelUCB, LinUCB, GP-UCB or another upper-confidence policy; adopted, not copied. Its exploration sets the
        confidence level.
    baseline
        Id of the baseline action, as in `ids` or the catalog; the row index if there are no ids.
    margin
        Required improvement over the baseline in units of the reward, zero or above.
    absent
        Behavior in a round that does not contain the baseline. "refuse" raises an error, so that a misspelled id does
        not disable the guard. "free" lets the wrapped policy choose, for baselines that are not always available.

    Examples
    --------
    >>> from kernelbandits.kernels import Delta
    >>> from kernelbandits.policies import KernelUCB
    >>> policy = Guarded(KernelUCB(Delta(), regularization=0.1, exploration=0.5), baseline="old", margin=0.1)
    >>> policy.choose(["old", "new"], ids=["old", "new"]).item
    'old'
    >>> policy.warm_start(["old", "new"], [0.2, 0.9], times=50)
    >>> policy.choose(["old", "new"], ids=["old", "new"]).item
    'new'
    """

    baseline: ItemId = parameter(_item_id)
    margin: float = parameter(partial(check_nonnegative, name="The margin"), default=0.0)
    absent: Literal["refuse", "free"] = parameter(
        one_of("refuse", "free", message="A round without the baseline is 'refuse'd or 'free' by absent=…"),
        default="refuse",
    )

    def _pick(self, actions: Actions) -> Selection:
        baseline = self._baseline_place(actions)
        if baseline is None:
            return self.policy._pick(actions)
        estimate = self._estimate(actions)
        place, propensity = pick_tied(self._tied(estimate, baseline), self.policy._ties, self.policy._rng)
        return self.policy._choice(estimate, place, propensity)

    def _probabilities(self, actions: Actions) -> Vector:
        baseline = self._baseline_place(actions)
        if baseline is None:
            return self.policy._probabilities(actions)
        return tie_probabilities(self._tied(self._estimate(actions), baseline), self.policy._ties, actions.n_actions)

    def _ranking(self, actions: Actions, *, diverse: bool) -> Ranking:
        return _GuardedRanking(self, self.policy._ranking(actions, diverse=diverse), self._baseline_place(actions))

    def _baseline_place(self, actions: Actions) -> int | None:
        """Return None if the baseline is not eligible; raise InvalidContexts if the round does not contain it."""
        baseline = actions.place_of(self.baseline)
        if baseline is None and self.absent == "refuse":
            self._require_known(actions)
        return baseline

    def _tied(self, estimate: ScoredPrediction, baseline: int, left: Indices | None = None) -> Indices:
        """Return the best actions that may replace the baseline, or the baseline; among all actions or some."""
        upper, lower = estimate.scores, estimate.lower
        is_better = lower > upper[baseline] + self.margin
        better = np.flatnonzero(is_better) if left is None else left[is_better[left]]
        if not len(better):
            return np.array([baseline])
        return better[tied_rows(upper[better], self.policy._ties)]

    def _require_known(self, actions: Actions) -> None:
        """Raise if the baseline is missing: a guard that is disabled silently would be worse than no guard."""
        if all(actions.item(row) != self.baseline for row in range(actions.n_rows)):
            raise InvalidContexts(
                f"The baseline {short_repr(self.baseline)} is not an action of this round. Pass ids=[…] that "
                "contain it, or take absent='free' for a baseline that comes and goes."
            )


# -- slates ------------------------------------------------------------------------------------------------------------


class _WrappedRanking(Ranking):
    """Base class of slates of wrappers, which modify the distribution of the slate of the wrapped policy."""

    def __init__(self, inner: Ranking) -> None:
        super().__init__(len(inner.left))
        self._inner = inner

    def estimate_of(self, row: int) -> tuple[float, float]:
        return self._inner.estimate_of(row)

    def copy(self) -> Self:
        continued = super().copy()
        continued._inner = self._inner.copy()
        return continued

    def place(self, row: int) -> None:
        super().place(row)
        self._inner.place(row)


class _MixedRanking(_WrappedRanking):
    """Slate of Mixed: each place holds a uniformly random remaining action with probability epsilon."""

    def __init__(self, policy: Mixed, inner: Ranking) -> None:
        super().__init__(inner)
        self._policy = policy

    def select(self) -> Selection:
        policy, left = self._policy, self.left
        choice, place = self._inner.select(), policy._random_place(len(left))
        if place is None or left[place] == choice.row:
            return choice._replace(propensity=policy._total(choice.propensity, len(left)))
        row, own = int(left[place]), float(self._inner.probabilities()[place])
        return policy._random_choice(choice, row, policy._total(own, len(left)), *self._inner.estimate_of(row))

    def probabilities(self) -> Vector:
        policy, n_left = self._policy, len(self.left)
        return np.array([policy._total(own, n_left) for own in self._inner.probabilities()])


class _SoftmaxRanking(_WrappedRanking):
    """Slate of Softmax: each place is drawn by the scores of the remaining actions."""

    _inner: ScoreRanking

    def __init__(self, policy: Softmax, inner: ScoreRanking) -> None:
        super().__init__(inner)
        self._policy = policy

    def select(self) -> Selection:
        probabilities = self.probabilities()
        place = drawn(probabilities, self._policy._rng)
        row = int(self.left[place])
        score = float(self._inner.estimate.scores[row])
        return Selection(row, *self.estimate_of(row), score, propensity=float(probabilities[place]))

    def probabilities(self) -> Vector:
        return self._policy._softmax(self._inner.estimate.scores[self.left])


class _GuardedRanking(_WrappedRanking):
    """Slate of Guarded: each place holds the baseline or an action that is better with confidence.

    Below the baseline, the wrapped policy ranks without restriction.
    """

    _inner: ScoreRanking

    def __init__(self, policy: Guarded, inner: ScoreRanking, baseline: int | None) -> None:
        super().__init__(inner)
        self._policy, self._baseline = policy, baseline

    def select(self) -> Selection:
        if self._baseline is None:
            return self._inner.select()
        inside = self._policy.policy
        row, propensity = pick_tied(self._tied(self._baseline), inside._ties, inside._rng)
        return inside._choice(self._inner.estimate, row, propensity)

    def probabilities(self) -> Vector:
        if self._baseline is None:
            return self._inner.probabilities()
        places = np.searchsorted(self.left, self._tied(self._baseline))
        return tie_probabilities(places, self._policy.policy._ties, len(self.left))

    def _tied(self, baseline: int) -> Indices:
        return self._policy._tied(self._inner.estimate, baseline, self.left)

    def place(self, row: int) -> None:
        super().place(row)
        if row == self._baseline:
            self._baseline = None
