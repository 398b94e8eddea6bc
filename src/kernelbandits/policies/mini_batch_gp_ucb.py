"""Mini-batch GP-UCB: every chosen action is played several times before the next is sought."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from kernelbandits._parameters import parameter
from kernelbandits._saved_state import saved_array, saved_part
from kernelbandits.policies.gp_ucb import GPUCB
from kernelbandits.posterior.dictionaries import checked_threshold
from kernelbandits.selection.actions import Actions
from kernelbandits.types import Decision, Parameters, Points, Selection, Vector

__all__ = ["MiniBatchGPUCB"]


class MiniBatchGPUCB(GPUCB):
    """GP-UCB that plays an action several times before it looks for the next (Calandriello et al. 2022).

    An action is played max(1, ⌊(C − 1)/width²⌋) times. n plays of an action leave width²/(1 + n width²) of its width²,
    so within such a batch its width shrinks by at most sqrt(C), and regret grows by at most that factor. There are at
    most 1 + L_T / ln((C + 1)/2) batches, hence distinct actions, so the cost of the exact posterior does
    not depend on the number of rounds.

    For a fixed set of actions. Where the action of a batch is not offered in a round, the best of the round is chosen.
    Counts are those of learned rewards.

    Parameters
    ----------
    kernel, noise_variance, exploration, failure_probability, budget, accuracy, reward_range, ties, seed
        As in `GPUCB`.
    threshold
        C > 1: the bound on the ratio of width² within a batch.

    Examples
    --------
    >>> from kernelbandits.kernels import Gaussian
    >>> policy = MiniBatchGPUCB(Gaussian(length_scale=0.2), noise_variance=4.0)
    >>> actions = []
    >>> for _ in range(8):
    ...     decision = policy.choose([[0.1], [0.5], [0.9]])
    ...     actions.append(decision.action)
    ...     policy.learn(decision, reward=0.0)
    >>> actions
    [0, 0, 0, 0, 2, 2, 2, 2]
    """

    accepts_offsets = False  # a batch repeats its action

    threshold: float = parameter(checked_threshold, default=2.0)

    def _setup(self) -> None:
        super()._setup()
        self._left = 0  # plays of the batch that are still to be learned
        self._batch: Points = None  # its action
        self._batch_key: Hashable = None

    _searches_boxes = False  # a point of a box is not played again

    def _pick(self, actions: Actions) -> Selection:
        if self._left:
            keys = self._point_kind.keys(actions.points)
            if self._batch_key in keys:
                row = keys.index(self._batch_key)
                mean, width = self._predict_one(actions.points, row)
                exploration = self._exploration_now(actions.n_actions, self._waiting(), self._ledger.round_index)
                return Selection(row, mean, width, mean + exploration * width)
        return super()._pick(actions)

    def _pick_batch(self, rounds: Sequence[Actions]) -> list[Selection]:
        return [self._pick(actions) for actions in rounds] if self._left else super()._pick_batch(rounds)

    def _probabilities(self, actions: Actions) -> Vector:
        if self._left and self._batch_key in self._point_kind.keys(actions.points):
            probabilities = np.zeros(actions.n_actions)
            probabilities[self._pick(actions).row] = 1.0
            return probabilities
        return super()._probabilities(actions)

    def _probabilities_batch(self, rounds: Sequence[Actions]) -> list[Vector]:
        return [self._probabilities(actions) for actions in rounds]

    @property
    def has_compiled_loop(self) -> bool:
        """False: the batches are counted between rounds."""
        return False

    def _update(self, decision: Decision, reward: float) -> None:
        self._count_play(decision)
        super()._update(decision, reward)

    def _update_many(self, decisions: Sequence[Decision], rewards: Vector) -> None:
        for decision in decisions:
            self._count_play(decision)
        super()._update_many(decisions, rewards)

    def _count_play(self, decision: Decision) -> None:
        point = self._point(decision)
        (key,) = self._point_kind.keys(point)
        self._note_references("_left", "_batch", "_batch_key")
        if self._left and key == self._batch_key:
            self._left -= 1
            return
        width = float(decision.width)
        squared = width * width  # infinite where `**` overflows
        n_plays = (self.threshold - 1.0) / squared if squared > 0.0 else 1.0  # also for NaN
        self._batch, self._batch_key, self._left = point, key, int(min(max(n_plays, 1.0), 2.0**31)) - 1

    def _state(self) -> Parameters:
        state: Parameters = {**super()._state(), "left": np.array([self._left], dtype=np.int64)}
        if self._left:
            state["batch"] = self._point_kind.pack(self._batch)
        return state

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._note_references("_left", "_batch", "_batch_key")
        self._left = int(saved_array(state, "left", "i", (1,), least=0)[0])
        if self._left:
            self._batch = self._point_kind.check(self._point_kind.unpack(saved_part(state, "batch")))
            (self._batch_key,) = self._point_kind.keys(self._batch)
