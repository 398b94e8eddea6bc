"""Upper-confidence policies: the shared rule, KernelUCB, and the cache of catalog engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from kernelbandits.errors import InvalidParameter
from kernelbandits.kernels import Kernel, KernelLike, as_kernel
from kernelbandits.policies.base import Choice
from kernelbandits.policies.posterior_policy import Estimate, PosteriorPolicy
from kernelbandits.policies.rounds import Actions, CatalogueActions, KnownRounds
from kernelbandits.policies.ties import Ties, checked_ties, pick_best, pick_tied, tie_probabilities, tied_rows
from kernelbandits.posterior import Placed, Posterior, PosteriorFactory, describe_posterior, posterior_factory
from kernelbandits.posterior.base import SMALLEST_REGULARISATION
from kernelbandits.posterior.factory import make_posterior
from kernelbandits.posterior.observations import Observations
from kernelbandits.selection import Catalogue, CatalogueEngine, Screening, screened, tied_in_each
from kernelbandits.theory.exploration import Constant, Exploration, as_exploration
from kernelbandits.types import (
    EMPTY,
    Decision,
    Indices,
    ItemId,
    OpenDecision,
    Parameters,
    Plays,
    Points,
    Prediction,
    Seed,
    SelectionCost,
    Vector,
    new_cost,
)
from kernelbandits.validation import is_one_of, shown

__all__ = ["Engines", "KernelUCB", "UpperConfidencePolicy"]

MOST_BYTES: Final = 1_000_000_000
"""Memory of the engines that a policy keeps besides the one that it used last."""


class Engines:
    """One engine a catalogue: derived state, made again when it is missing, never saved and never copied.

    An engine lives as long as its catalogue does, and as long as the engines used after it take no more than
    `MOST_BYTES`. One in which a question or an update did not come to its end, because of an interrupt or an error, is
    never asked again.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Catalogue, _Kept] = WeakKeyDictionary()  # used last at the end
        self._latest: tuple[ref[Catalogue], CatalogueEngine] | None = None

    def __reduce__(self) -> tuple[type[Engines], tuple[()]]:
        """A copy begins without any."""
        return Engines, ()

    def __len__(self) -> int:
        return len(self._kept)

    def engine(self, catalogue: Catalogue, posterior: Posterior) -> CatalogueEngine | None:
        """The engine for this catalogue, up to date with the posterior; None where brute force has to do.

        It is for posteriors that keep a record, kernels beyond doubt and items that are not too large for the
        regularisation: brute force looks at every width, so it notices similarities that are no kernel or overflow.
        """
        record = getattr(posterior, "record", None)
        if not isinstance(record, Observations) or posterior.n_merged or not posterior.is_sure:
            return None
        latest = self._latest  # mostly it is the same again
        is_latest = latest is not None and latest[0]() is catalogue and latest[1].is_finished
        engine = latest[1] if is_latest and latest is not None else self._of(catalogue)
        if engine is None or engine.n_items < catalogue.n_items:
            points = catalogue.points(posterior.kernel.kind)
            if not _fits(posterior, points):
                return None
            if engine is None:
                engine = CatalogueEngine(points, posterior.kernel, posterior.regularisation)
            else:
                engine.grow(points)
        if not is_latest:
            self._use(catalogue, engine)
        engine.catch_up(record)
        return engine

    def _of(self, catalogue: Catalogue) -> CatalogueEngine | None:
        """What is kept for a catalogue, unless it is half-made."""
        kept = self._kept.get(catalogue)
        return kept.engine if kept is not None and kept.engine.is_finished else None

    def _use(self, catalogue: Catalogue, engine: CatalogueEngine) -> None:
        """Put an engine at the end, and drop those used longest ago that do not fit."""
        before, self._latest = self._latest, None
        last = None if before is None else before[0]()
        if before is not None and last is not None and last in self._kept:
            self._kept[last] = _Kept(before[1], before[1].n_bytes)  # it may have grown while it was used
        self._kept.pop(catalogue, None)
        n_bytes = sum(kept.n_bytes for kept in self._kept.values())
        while n_bytes > MOST_BYTES:
            oldest = next(iter(self._kept))
            n_bytes -= self._kept.pop(oldest).n_bytes
        self._kept[catalogue] = _Kept(engine, 0)
        self._latest = (ref(catalogue), engine)


class _Kept(NamedTuple):
    """An engine, and the memory that it took when another was used after it."""

    engine: CatalogueEngine
    n_bytes: int


def _fits(posterior: Posterior, points: Points) -> bool:
    """Whether the widths of these points keep their digits."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(posterior.kernel.diagonal(points).max())
    return SMALLEST_REGULARISATION * largest <= posterior.regularisation  # not for NaN either


FEW_ACTIONS: Final = 8
"""Fewer actions of a round are cheaper to score all, together with those of other rounds."""

SIMILARITIES_AT_ONCE: Final = 4_000_000
"""To what was learnt, of actions of rounds that are asked about together: 32 MB."""


class UpperConfidencePolicy(PosteriorPolicy):
    """Highest mean + exploration · width over a posterior; the subclass says which posterior and which words."""

    def __init__(
        self,
        posterior: Posterior,
        exploration: Exploration,
        *,
        reward_range: tuple[float, float] | None,
        ties: Ties,
        seed: Seed,
    ) -> None:
        super().__init__(posterior, exploration, reward_range=reward_range, seed=seed)
        self._ties = checked_ties(ties, may_be_exact=True)
        self._uses_engines = ties != "exact"  # engines agree to rounding, which then would decide
        self._engines = Engines()
        self._screening = Screening()

    # -- choosing --------------------------------------------------------------------------------------------------

    def _pick(self, actions: Actions) -> Choice:
        engine = self._engine_for(actions)
        if engine is None or not isinstance(actions, CatalogueActions):
            return self._pick_from_new(actions)
        exploration = self._exploration_now(actions.n_actions, None, self._ledger.round_index, engine)
        # A catalogue may have got more items in another thread since this round began.
        rows = actions.view.rows if engine.n_items > actions.n_rows else actions.rows
        row, mean, width, tied = engine.choose(exploration, rows)
        propensity = 1.0
        if tied is not None:
            row, propensity = pick_tied(tied, self._ties, self._rng)
            mean, width = engine.estimate_one(row)
        place = row if actions.rows is None else int(np.searchsorted(actions.rows, row))
        return Choice(place, mean, width, mean + exploration * width, propensity, cost=engine.cost())

    def _choose_shortly(self, contexts: Points) -> Decision | None:
        """One question to what tells the best by itself, where nothing else has a say: half of a round was Python."""
        posterior, ledger, kind = self.posterior, self._ledger, self.posterior.kernel.kind
        if ledger.pending or not self._uses_engines:
            return None
        item: ItemId
        if type(contexts) is np.ndarray:
            if not (posterior.plays and isinstance(self._exploration, Constant)):
                return None
            points, exploration = kind.check(contexts), self._exploration.value
            n_actions, best = len(points), posterior._best(points, exploration)
            if best is None or best.tied is not None:
                return None
            row, mean, width, n_widths, _ = best
            item, cost = row, new_cost(("screened", n_actions, n_actions, n_widths, n_actions))
        elif type(contexts) is Catalogue:
            engine = self._engines.engine(contexts, posterior)
            if engine is None:
                return None
            points, n_actions = contexts.points(kind), engine.n_items
            schedule = self._exploration
            if type(schedule) is Constant:
                exploration = schedule.value
            else:
                exploration = self._exploration_now(n_actions, None, ledger.round_index, engine)
            row, mean, width, tied = engine.choose(exploration)
            if tied is not None:
                return None
            item, cost = contexts.item(row), engine.cost()
        else:
            return None
        name = ledger.new_id()
        is_known = self._known_configuration == ledger.configuration
        fingerprint = self._known_fingerprint if is_known else self.fingerprint
        decision: Any = OpenDecision(
            row, kind.one(points, row), mean, width, mean + exploration * width, 1.0, None, item, n_actions,
            1 + ledger.n_learnt, name, fingerprint, EMPTY, cost,
        )  # fmt: skip
        decision.__class__ = Decision  # as `new_decision` does
        ledger.latest = decision
        return decision  # type: ignore[no-any-return]

    def _pick_from_all(self, points: Points, n_actions: int) -> Choice:
        """The best after scoring every action."""
        estimate = self._estimate(points, n_actions, self._waiting(), self._ledger.round_index)
        return self._choice(estimate, *pick_best(estimate.scores, self._ties, self._rng))

    def _pick_from_new(self, actions: Actions) -> Choice:
        """The best of actions that no engine has followed, without exact widths for all where that pays."""
        n_actions = actions.n_actions
        if self._ledger.pending or not self._uses_engines:
            return self._pick_from_all(actions.points, n_actions)
        exploration, points = self._exploration_now(n_actions, None, self._ledger.round_index), actions.points
        best = self.posterior._best(points, exploration)
        if best is not None:
            row, mean, width, n_widths, tied = best
            propensity = 1.0
            if tied is not None:
                row, propensity = pick_tied(tied, self._ties, self._rng)
                prediction = self.posterior._estimate(self._kind(points).take(points, np.array([row])))
                mean, width = prediction.mean.item(), prediction.width.item()
            cost = _screened(n_actions, n_widths)
            return Choice(row, mean, width, mean + exploration * width, propensity, cost=cost)
        if not self._screening.is_finished:
            self._screening = Screening()
        found = self._screening.best(self.posterior, points, n_actions, exploration)
        if found is None:
            return self._pick_from_all(points, n_actions)
        cost = self._screening.cost()
        row, propensity = pick_tied(found, self._ties, self._rng)
        mean, width = self._screening.estimate_one(row)
        self._screening.expect(row)
        return Choice(row, mean, width, mean + exploration * width, propensity, cost=cost)

    def _pick_for_each(self, rounds: Sequence[Actions]) -> list[Choice]:
        """All means and widths in one question to the posterior, at matrix-matrix speed, where few are left out."""
        if len(rounds) < 2 or any(self._is_selective(actions) for actions in rounds):
            return super()._pick_for_each(rounds)
        if not self.posterior.size:  # nothing learnt: rounds need not be alike
            return super()._pick_for_each(rounds)
        return [
            self._choice(estimate, *pick_best(estimate.scores, self._ties, self._rng))
            for estimate in self._estimates(rounds)
        ]

    def _estimates(self, rounds: Sequence[Actions]) -> Iterator[Estimate]:
        """Of the actions of each round, from one question to the posterior."""
        waiting = self._waiting()
        whole, first = self._predict(self._stacked(rounds), waiting), 0
        for actions in rounds:
            part = slice(first, first + actions.n_actions)
            exploration = self._exploration_now(actions.n_actions, waiting, self._ledger.round_index)
            yield Estimate(Prediction(whole.mean[part], whole.width[part]), exploration)
            first = part.stop

    def _stacked(self, rounds: Sequence[Actions]) -> Points:
        return self.posterior.kernel.kind.stack(*(actions.points for actions in rounds))

    def _is_selective(self, actions: Actions) -> bool:
        """Whether these actions are better asked about alone, since few of their widths will be computed."""
        if isinstance(actions, CatalogueActions):
            return True
        if self._ledger.pending or not self._uses_engines or actions.n_actions < FEW_ACTIONS:
            return False
        return self.posterior.plays or screened(self.posterior, actions.n_actions) is not None

    def _engine_for(self, actions: Actions) -> CatalogueEngine | None:
        """What knows the best item of a catalogue without scoring all; None where all have to be scored."""
        if not self._uses_engines or self._ledger.pending or not isinstance(actions, CatalogueActions):
            return None
        return None if actions.view.context is not None else self._engines.engine(actions.catalogue, self.posterior)

    def _rank(self, actions: Actions, k: int, *, diverse: bool) -> list[Choice]:
        points, n_actions = actions.points, actions.n_actions
        left = np.arange(n_actions)
        waiting = self._waiting()
        estimate = self._estimate(points, n_actions, waiting, self._ledger.round_index)
        placed = Placed(self.posterior, points, estimate.prediction, waiting) if diverse else None
        choices: list[Choice] = []
        for place in range(k):
            if placed is not None and place:
                # As if the items above had been chosen and were awaited: their widths count, their rewards do not.
                placed.place(choices[-1].action)
                exploration = self._exploration_now(n_actions - place, placed, self._ledger.round_index + place)
                estimate = Estimate(Prediction(estimate.prediction.mean, np.sqrt(placed.squares)), exploration)
            best, propensity = pick_best(estimate.scores[left], self._ties, self._rng)
            choices.append(self._choice(estimate, int(left[best]), propensity))
            left = np.delete(left, best)
        return choices

    def _choice(self, estimate: Estimate, row: int, propensity: float) -> Choice:
        mean, width = float(estimate.prediction.mean[row]), float(estimate.prediction.width[row])
        n_actions = len(estimate.prediction.mean)
        cost = _screened(n_actions, n_actions)
        return Choice(row, mean, width, mean + estimate.exploration * width, propensity, cost=cost)

    def _probabilities(self, actions: Actions) -> Vector:
        estimate = self._estimate(actions.points, actions.n_actions, self._waiting(), self._ledger.round_index)
        return tie_probabilities(tied_rows(estimate.scores, self._ties), self._ties, actions.n_actions)

    def _probabilities_for_each(self, rounds: Sequence[Actions]) -> list[Vector]:
        """Ties of many rounds in few questions; the last digit, which may decide where ties are exact, in one each."""
        if len(rounds) < 2 or self._ties == "exact" or not self.posterior.size:  # rounds need not be alike
            return super()._probabilities_for_each(rounds)
        found = [self._probabilities(rounds[0])]  # alone: a posterior may take a cheaper form once it is asked
        for part in self._side_by_side(rounds[1:]):
            if len(part) == 1:
                found.append(self._probabilities(part[0]))
                continue
            tied = zip(self._tied_in_each(part), part, strict=True)
            found += [tie_probabilities(rows, self._ties, actions.n_actions) for rows, actions in tied]
        return found

    def _side_by_side(self, rounds: Sequence[Actions]) -> Iterator[list[Actions]]:
        """Rounds in a row whose actions are asked about together; those of a catalogue, which shares work, alone."""
        part: list[Actions] = []
        n_points, most = 0, max(1, SIMILARITIES_AT_ONCE // max(1, self.posterior.size))
        for actions in rounds:
            is_alone = isinstance(actions, CatalogueActions)
            if part and (is_alone or n_points + actions.n_actions > most):
                yield part
                part, n_points = [], 0
            part.append(actions)
            n_points += most if is_alone else actions.n_actions
        if part:
            yield part

    def _tied_in_each(self, rounds: Sequence[Actions]) -> list[Indices]:
        """Rows tied for the best score of each round."""
        tied = None
        exact = screened(self.posterior, len(rounds)) if self._waiting() is None and self._uses_engines else None
        if exact is not None:
            sizes = [actions.n_actions for actions in rounds]
            exploration = [self._exploration_now(size, None, self._ledger.round_index) for size in sizes]
            tied = tied_in_each(exact, self._stacked(rounds), np.array(sizes), np.array(exploration))
        if tied is not None:
            return tied
        return [tied_rows(estimate.scores, self._ties) for estimate in self._estimates(rounds)]

    # -- learning --------------------------------------------------------------------------------------------------

    @property
    def is_fused(self) -> bool:
        """As described in `Policy`: where the posterior plays, and no schedule, chance or awaited reward interferes."""
        is_plain = isinstance(self._exploration, Constant) and self._ties == "lowest" and not self._ledger.pending
        return is_plain and self._uses_engines and self.posterior.plays

    def _play(self, known: KnownRounds, plays: Plays) -> None:
        t, notes, n_notes = 0, self._journal.notes, -1
        while t < len(known):
            if self.is_fused:
                exploration = self._exploration_now(1, None, self._ledger.round_index)  # the same in all rounds
                for start, contexts, rewards in known.blocks(t):
                    rows, means, widths = self.posterior._play(contexts, rewards, exploration)
                    t = start + len(rows)
                    done = slice(start, t)
                    plays.action[done], plays.mean[done], plays.width[done] = rows, means, widths
                    plays.score[done] = means + exploration * widths
                    plays.reward[done] = rewards[np.arange(len(rows)), rows]
                    self._ledger.count(len(rows))
                    if len(rows) < len(contexts):
                        break
            if t < len(known):
                if n_notes < 0:  # from here on a copy, and not a note per round
                    self._ledger.count(0)
                    self._note_copy()
                    n_notes = len(notes)
                self._play_round(known, plays, t)
                t += 1
            if n_notes >= 0:
                del notes[n_notes:]


def _screened(n_actions: int, n_widths: int) -> SelectionCost:
    """The cost of a choice for which all means and some widths were computed."""
    if n_widths == n_actions:
        return new_cost(("exhaustive", n_actions, n_actions, n_actions, 0))
    return new_cost(("screened", n_actions, n_actions, n_widths, n_actions))


class KernelUCB(UpperConfidencePolicy):
    """Take the action of highest mean + exploration · width (Valko et al. 2013, KernelUCB with online updates).

    Ridge regression in the feature space of the kernel gives mean and width of every action of the round from the
    rewards learnt so far; actions never tried are judged by their similarity to actions that were. Choosing among N
    actions after learning from m distinct contexts costs O(N m) and O(m²) for each action that may be the best, O(N m²)
    where all widths have to be known; learning costs O(m²), or O(m) for what was chosen just before.

    Parameters
    ----------
    kernel
        A kernel, a square table of similarities, a scikit-learn kernel, or a function (first, second) → matrix.
    regularisation
        γ > 0: how much evidence it takes to leave the prior belief that every reward is 0.
    exploration
        How many widths above its mean an action is judged: a number tuned to the problem (0.1 to 2), or a schedule of
        `kernelbandits.theory.exploration` such as `Mixture`, whose confidence statement is proved.
    posterior
        "auto" (the cheaper exact form), "exact", "primal", or a function (kernel, regularisation) → posterior. For
        rewards that change with time: posterior_factory("windowed", length=200) or
        posterior_factory("forgetting", rate=0.99); then all actions are scored, and exploration has to be tuned.
    reward_range
        Rewards outside it are refused; None takes any finite number.
    ties
        Scores within 1e-10 of the best are tied, and go to the "lowest" row, or to one at "random" drawn from `seed`,
        with its propensity in the decision. "exact" is the plain argmax: the last digit decides, and all are scored.
    engine
        "auto" finds the best action without scoring all where it can; "exhaustive" scores every one, to compare with.
        The choices are the same, so it is no part of the fingerprint and of files.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = KernelUCB(Gaussian(length_scale=0.3), regularisation=0.1, exploration=0.2)
    >>> contexts = np.linspace(0, 1, 5)[:, None]
    >>> for _ in range(10):
    ...     decision = policy.choose(contexts)
    ...     policy.learn(decision, reward=1.0 - abs(contexts[decision.action, 0] - 0.75))
    >>> policy.choose(contexts).action
    3
    """

    def __init__(
        self,
        kernel: KernelLike,
        *,
        regularisation: float = 1.0,
        exploration: float | Exploration = 1.0,
        posterior: str | PosteriorFactory = "auto",
        reward_range: tuple[float, float] | None = None,
        ties: Ties = "lowest",
        seed: Seed = None,
        engine: Literal["auto", "exhaustive"] = "auto",
    ) -> None:
        if not is_one_of(engine, ("auto", "exhaustive")):
            raise InvalidParameter(f"The engine is 'auto', or 'exhaustive' to score every action, got {shown(engine)}.")
        self.kernel: Kernel = as_kernel(kernel)
        self._form = posterior_factory(posterior)
        super().__init__(
            make_posterior(self._form, self.kernel, regularisation),
            as_exploration(exploration),
            reward_range=reward_range,
            ties=ties,
            seed=seed,
        )
        self._uses_engines = self._uses_engines and engine == "auto"

    def _parameters(self) -> Parameters:
        return {
            "kernel": self.kernel.describe(),
            "regularisation": self.posterior.regularisation,
            "exploration": self.exploration.describe(),
            "posterior": describe_posterior(self._form),
            "reward_range": self.reward_range,
            "ties": self._ties,
        }
