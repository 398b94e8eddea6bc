"""Contract tests of policies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelbandits.errors import (
    AlreadyLearnt,
    CannotSave,
    DecisionError,
    ForeignDecision,
    InvalidContexts,
    InvalidParameter,
    InvalidReward,
    NotLearnt,
    NotSupported,
)
from kernelbandits.kernels import Kernel
from kernelbandits.policies import Policy, load
from kernelbandits.selection import Catalog
from kernelbandits.types import Decision, Points

__all__ = ["PolicyContract"]

MakePolicy = Callable[[], Policy]
MakeRound = Callable[[np.random.Generator, int], Points]


class PolicyContract:
    """Contract of policies. Derive a test class from it and supply two fixtures.

    `make_policy` is a function without arguments that returns a new policy, always with the same configuration and
    seed. `make_round` is a function (rng, n_actions) → contexts; for a policy with `needs_fixed_actions` it returns the
    fixed set, regardless of its arguments. Rewards used here lie in [0, 1].

    A kernel that a file cannot hold, such as a function or a class of your own, is passed to `load` again. One test is
    long and has the mark `long`: leave it out with `pytest -m "not long"`.
    """

    is_random: bool = False
    """Whether `choose` draws from the policy's own generator."""

    has_amendments: bool = True
    """Whether rewards can be corrected and removed."""

    n_fixed: int | None = None
    """Number of actions of the fixed set of a policy that needs one."""

    own_classes: tuple[type[Policy], ...] = ()
    """User-defined policy classes to pass to `load`."""

    def test_a_decision_says_what_was_chosen(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """Row, item, round, number of actions, a unique id and the fingerprint."""
        policy = make_policy()
        contexts, n_actions = make_round(np.random.default_rng(0), 5), self._size(5)
        names = [f"item {row}" for row in range(n_actions)]

        first, second = (policy.choose(contexts, ids=names) for _ in range(2))

        assert 0 <= first.action < n_actions
        assert first.item == names[first.action]
        assert (first.n_actions, first.round_index, first.policy) == (n_actions, 1, policy.fingerprint)
        assert first.id
        assert first.id != second.id
        assert policy.choose(contexts).item in range(n_actions)

    def test_choosing_changes_no_later_answer(
        self, make_policy: MakePolicy, make_round: MakeRound, tmp_path: Path
    ) -> None:
        """The saved file does not change either, except for the generator of a randomized policy."""
        queried, untouched = self._trained(make_policy, make_round), self._trained(make_policy, make_round)
        rng = np.random.default_rng(1)
        queried.save(tmp_path / "before")

        for _ in range(5):
            contexts = make_round(rng, 4)
            queried.choose(contexts)
            queried.probabilities(contexts)

        queried.save(tmp_path / "after")
        contexts = make_round(rng, 6)
        if not self.is_random:
            assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
            assert queried.choose(contexts).action == untouched.choose(contexts).action
        np.testing.assert_allclose(queried.probabilities(contexts), untouched.probabilities(contexts))
        assert queried.round_index == untouched.round_index

    def test_equal_seeds_give_equal_runs(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """Ids and clocks do not affect results."""
        first, second = (_run(make_policy(), make_round, 25) for _ in range(2))

        assert [decision.action for decision in first] == [decision.action for decision in second]

    def test_playing_is_choosing_and_learning_in_turn(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """Only the form of the result differs: columns instead of decisions."""
        rng = np.random.default_rng(11)
        sizes = (4, 4, 4, 1, 6, *(5 for _ in range(20)))
        rounds = [make_round(rng, n_actions) for n_actions in sizes]
        rewards = [rng.uniform(size=self._size(n_actions)) for n_actions in sizes]
        played, looped = self._trained(make_policy, make_round), self._trained(make_policy, make_round)

        plays = played.play(rounds, rewards)

        for t, contexts in enumerate(rounds):
            decision = looped.choose(contexts)
            looped.learn(decision, float(rewards[t][decision.action]))
            assert (plays.action[t], plays.reward[t]) == (decision.action, rewards[t][decision.action])
            np.testing.assert_allclose(
                [plays.mean[t], plays.width[t], plays.propensity[t]],
                [decision.mean, decision.width, decision.propensity],
                atol=1e-9,
            )
        assert len(plays) == len(rounds)
        assert played.round_index == looped.round_index
        contexts = make_round(rng, 6)
        np.testing.assert_allclose(played.probabilities(contexts), looped.probabilities(contexts))

    def test_rounds_that_cannot_be_played_leave_no_trace(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """All rounds are validated first."""
        policy, rng = self._trained(make_policy, make_round), np.random.default_rng(12)
        rounds, n_actions = [make_round(rng, 3) for _ in range(4)], self._size(3)
        before, rewards = (policy.round_index, policy.probabilities(rounds[0])), rng.uniform(size=n_actions)

        with pytest.raises(InvalidReward):
            policy.play(rounds, [rewards] * 3)
        with pytest.raises(InvalidReward):
            policy.play(rounds, np.full((4, n_actions), np.nan))
        with pytest.raises(InvalidReward):
            policy.play(rounds, np.zeros((4, n_actions - 1)))
        with pytest.raises(InvalidContexts):
            policy.play([*rounds[:3], []], [rewards] * 4)

        assert policy.round_index == before[0]
        np.testing.assert_array_equal(policy.probabilities(rounds[0]), before[1])
        assert len(policy.play([], [])) == 0

    def test_many_rounds_are_chosen_like_each(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """On the same model, with the same random state."""
        together, alone = self._trained(make_policy, make_round), self._trained(make_policy, make_round)
        rng = np.random.default_rng(13)
        rounds = [make_round(rng, n_actions) for n_actions in (5, 1, 3, 7)]

        decisions = together.choose_many(rounds)

        for contexts, decision in zip(rounds, decisions, strict=True):
            other = alone.choose(contexts)
            assert (decision.action, decision.n_actions) == (other.action, other.n_actions)
            assert decision.round_index == other.round_index
            np.testing.assert_allclose([decision.mean, decision.width], [other.mean, other.width], atol=1e-9)
        assert len({decision.id for decision in decisions}) == 4
        together.learn_many(decisions, [0.1, 0.2, 0.3, 0.4])
        assert together.choose_many([]) == []

    def test_ids_and_eligible_actions_of_many_rounds_are_those_of_each(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Tests `choose_many` and `probabilities_many`; the ids move between the rows."""
        together, alone = self._trained(make_policy, make_round), self._trained(make_policy, make_round)
        rounds, ids, eligible = self._restricted_rounds(make_round)

        stated = together.probabilities_many(rounds, ids=ids, eligible=eligible)
        decisions = together.choose_many(rounds, ids=ids, eligible=eligible)

        for t, decision in enumerate(decisions):
            probabilities = alone.probabilities(rounds[t], ids=ids[t], eligible=eligible[t])
            other = alone.choose(rounds[t], ids=ids[t], eligible=eligible[t])
            assert (decision.action, decision.item, decision.n_actions) == (other.action, other.item, other.n_actions)
            np.testing.assert_allclose([decision.mean, decision.width], [other.mean, other.width], atol=1e-9)
            np.testing.assert_allclose(stated[t], probabilities, rtol=1e-9, atol=1e-12)
        with pytest.raises(InvalidContexts, match="its entry of `ids`"):
            together.choose_many(rounds, ids=ids[1:])
        with pytest.raises(InvalidContexts, match="its entry of `eligible`"):
            together.probabilities_many(rounds, eligible=eligible[1:])

    def test_playing_uses_ids_and_eligible_actions_as_the_loop_does(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Wrong ones are rejected and leave no trace."""
        rounds, ids, eligible = self._restricted_rounds(make_round)
        rng = np.random.default_rng(25)
        rewards = [rng.uniform(size=len(names)) for names in ids]
        played, looped = self._trained(make_policy, make_round), self._trained(make_policy, make_round)
        before = played.round_index

        for wrong in (
            {"ids": ids[1:]},
            {"ids": [["a"] * len(names) for names in ids]},
            {"ids": [[*names, "more"] for names in ids]},
            {"eligible": eligible[1:]},
            {"eligible": [np.zeros(len(names), dtype=bool) for names in ids]},
        ):
            with pytest.raises((InvalidContexts, InvalidParameter)):
                played.play(rounds, rewards, **wrong)
        assert played.round_index == before
        plays = played.play(rounds, rewards, ids=ids, eligible=eligible)

        for t, contexts in enumerate(rounds):
            decision = looped.choose(contexts, ids=ids[t], eligible=eligible[t])
            looped.learn(decision, float(rewards[t][decision.action]))
            assert (plays.action[t], plays.reward[t]) == (decision.action, rewards[t][decision.action])
            np.testing.assert_allclose(
                [plays.mean[t], plays.width[t], plays.propensity[t]],
                [decision.mean, decision.width, decision.propensity],
                atol=1e-9,
            )
        assert played.round_index == looped.round_index
        np.testing.assert_allclose(
            played.probabilities(rounds[0], ids=ids[0]), looped.probabilities(rounds[0], ids=ids[0]), atol=1e-9
        )

    def _restricted_rounds(self, make_round: MakeRound) -> tuple[list[Points], list[list[str]], list[Any]]:
        """Return rounds, ids that move between the rows, and masks of eligible actions, some of them None."""
        rng = np.random.default_rng(26)
        sizes = [self._size(n_actions) for n_actions in (5, 5, 5, 1, 3, 5, 5, 5, 7, 5)]
        rounds = [make_round(rng, n_actions) for n_actions in sizes]
        ids = [[f"item {row}" for row in rng.permutation(n_actions)] for n_actions in sizes]
        masks: list[Any] = [rng.random(n_actions) < 0.6 for n_actions in sizes]
        for t, mask in enumerate(masks):
            mask[rng.integers(len(mask))] = True
            masks[t] = None if t % 4 == 3 else mask
        return rounds, ids, masks

    def test_many_rounds_have_the_probabilities_of_each(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """On the same model."""
        policy, rng = self._trained(make_policy, make_round), np.random.default_rng(16)
        rounds = [make_round(rng, n_actions) for n_actions in (5, 1, 3, 7)]

        together = policy.probabilities_many(rounds)

        for contexts, probabilities in zip(rounds, together, strict=True):
            np.testing.assert_allclose(probabilities, policy.probabilities(contexts), rtol=1e-9)
        assert policy.probabilities_many([]) == []

    def test_a_batch_is_not_learned_again(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """Regardless of how it was learned first."""
        policy = self._trained(make_policy, make_round)
        decision = policy.choose(make_round(np.random.default_rng(14), 4))
        policy.learn_many([decision], [0.5])

        with pytest.raises(AlreadyLearnt):
            policy.learn(decision, 0.5)
        with pytest.raises(AlreadyLearnt):
            policy.learn_many([decision], [0.5])

    def test_action_sets_may_change_in_size(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """A policy that needs a fixed set rejects them with a clear error message."""
        policy, rng = make_policy(), np.random.default_rng(2)
        if policy.needs_fixed_actions:
            self._rejects_another_set(policy, make_round)
            return

        for n_actions in (1, 7, 3, 1, 2):
            decision = policy.choose(make_round(rng, n_actions))
            assert 0 <= decision.action < n_actions
            policy.learn(decision, 0.5)

        assert policy.round_index == 6

    def _rejects_another_set(self, policy: Policy, make_round: MakeRound) -> None:
        contexts = make_round(np.random.default_rng(2), 1)
        other = list(contexts)[:-1]

        with pytest.raises(NotSupported, match="one fixed set"):
            policy.choose(other)
        with pytest.raises(NotSupported, match="one fixed set"):
            policy.choose(Catalog(other))
        with pytest.raises(NotSupported, match="one fixed set"):
            policy.play([contexts, other], [np.zeros(self._size(1)), np.zeros(self._size(1) - 1)])

        assert policy.round_index == 1
        assert policy.choose(Catalog(contexts)).n_actions == self._size(1)

    def test_only_eligible_actions_are_chosen(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """`action` is still the row among all actions passed."""
        policy = self._trained(make_policy, make_round)
        contexts, n_actions = make_round(np.random.default_rng(3), 6), self._size(6)

        for row in range(n_actions):
            eligible = np.arange(n_actions) == row
            decision = policy.choose(contexts, eligible=eligible)
            assert (decision.action, decision.n_actions, decision.propensity) == (row, 1, 1.0)
            assert policy.probabilities(contexts, eligible=eligible).tolist() == eligible.tolist()

    def test_probabilities_sum_to_one_and_contain_the_propensity(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Propensities are exact, as off-policy evaluation requires."""
        policy, rng = self._trained(make_policy, make_round), np.random.default_rng(4)

        for n_actions in (1, 2, 7):
            contexts = make_round(rng, n_actions)
            probabilities = policy.probabilities(contexts)
            decision = policy.choose(contexts)
            assert probabilities.sum() == pytest.approx(1.0)
            assert (probabilities >= 0).all()
            assert decision.propensity == pytest.approx(probabilities[decision.action])

    def test_actions_are_drawn_as_often_as_stated(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """Pearson's chi-square over the actions; at most one in a million such tests fails at random."""
        policy, contexts = self._trained(make_policy, make_round), make_round(np.random.default_rng(21), 5)
        n_draws = 1_000 if self.is_random else 10

        self._are_drawn_as_stated(policy, contexts, [policy.choose(contexts) for _ in range(n_draws)])

    @pytest.mark.long
    def test_actions_are_drawn_as_often_as_stated_in_many_draws(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """The same with a hundred thousand draws in one batch."""
        policy, contexts = self._trained(make_policy, make_round), make_round(np.random.default_rng(21), 5)
        n_draws = 100_000 if self.is_random else 10

        self._are_drawn_as_stated(policy, contexts, policy.choose_many([contexts] * n_draws))

    def _are_drawn_as_stated(self, policy: Policy, contexts: Points, decisions: Sequence[Decision]) -> None:
        stated, n_draws = policy.probabilities(contexts), len(decisions)
        drawn = np.bincount([decision.action for decision in decisions], minlength=len(stated))

        assert not drawn[stated == 0.0].any()
        wanted = n_draws * stated[stated > 0.0]
        assert ((drawn[stated > 0.0] - wanted) ** 2 / wanted).sum() < _largest_chi_square(len(wanted) - 1)

    def test_a_reward_is_learned_once(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """A second time is rejected, alone or in a batch, and changes nothing."""
        policy, rng = make_policy(), np.random.default_rng(5)
        first, second = policy.choose(make_round(rng, 3)), policy.choose(make_round(rng, 3))
        policy.learn(first, 0.25)

        with pytest.raises(AlreadyLearnt, match=first.id):
            policy.learn(first, 0.25)
        with pytest.raises(AlreadyLearnt, match=first.id):
            policy.learn_many([second, first], [0.5, 0.5])
        with pytest.raises(AlreadyLearnt, match="twice"):
            policy.learn_many([second, second], [0.5, 0.5])

        assert policy.round_index == 2
        policy.learn(second, 0.5)

    def test_decisions_may_be_learned_late_and_many_at_once(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """All of them or none."""
        policy, rng = make_policy(), np.random.default_rng(6)
        decisions = [policy.choose(make_round(rng, 4)) for _ in range(6)]

        policy.learn(decisions[3], 0.1)
        with pytest.raises(InvalidReward):
            policy.learn_many(decisions[:3], [0.2, np.nan, 0.4])
        policy.learn_many([decisions[5], *decisions[:3]], [0.5, 0.2, 0.3, 0.4])

        assert policy.round_index == 6
        policy.learn(decisions[4], 0.9)

    def test_a_decision_of_another_configuration_is_foreign(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """An equally configured new policy accepts it, so that a restart can replay stored decisions."""
        policy, fresh = make_policy(), make_policy()
        decision = policy.choose(make_round(np.random.default_rng(7), 3))

        with pytest.raises(ForeignDecision, match="other parameters"):
            policy.learn(replace(decision, policy="0123456789abcdef"), 0.5)
        with pytest.raises(DecisionError, match="is needed, got int"):
            policy.learn(3, 0.5)  # type: ignore[arg-type]
        with pytest.raises(DecisionError, match="is needed, got str"):
            policy.withdraw("x")  # type: ignore[arg-type]
        with pytest.raises(DecisionError, match="a single one"):
            policy.learn_many(decision, [0.5])  # type: ignore[arg-type]
        fresh.learn(Decision.from_dict(decision.to_dict()), 0.5)

        assert (policy.round_index, fresh.round_index) == (1, 2)

    def test_a_decision_built_by_hand_is_learned_unchecked(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Without id and fingerprint there is nothing to validate."""
        policy = make_policy()
        decision = replace(policy.choose(make_round(np.random.default_rng(8), 3)), id="", policy="")

        policy.learn(decision, 0.5)
        policy.learn(decision, 0.5)

        assert policy.round_index == 3

    def test_an_expected_decision_is_a_round_and_is_settled_or_withdrawn(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Expecting a decision twice, or withdrawing one that is not pending, is rejected."""
        policy, rng = make_policy(), np.random.default_rng(9)
        first, second = policy.choose(make_round(rng, 3)), policy.choose(make_round(rng, 3))

        policy.expect(first)
        policy.expect(second)
        assert list(policy.pending) == [first.id, second.id]
        assert policy.round_index == 3
        with pytest.raises(DecisionError, match="pending already"):
            policy.expect(first)
        policy.choose(make_round(rng, 4))
        policy.learn(first, 0.5)
        policy.withdraw(second)
        assert dict(policy.pending) == {}
        assert policy.round_index == 2
        with pytest.raises(DecisionError, match="not pending"):
            policy.withdraw(second)
        with pytest.raises(AlreadyLearnt):
            policy.expect(first)

    def test_a_withdrawn_decision_leaves_no_trace(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """Choices are those of a policy that never expected it."""
        policy, other = self._trained(make_policy, make_round), self._trained(make_policy, make_round)
        contexts = make_round(np.random.default_rng(10), 5)
        decision = policy.choose(contexts)

        policy.expect(decision)
        policy.withdraw(decision)

        np.testing.assert_allclose(policy.probabilities(contexts), other.probabilities(contexts))

    def test_amended_and_unlearned_rewards_are_as_if_they_had_come_right(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Or rejected with a clear error message, if the update depends on the order."""
        policy, straight, rng = make_policy(), make_policy(), np.random.default_rng(11)
        decisions = [policy.choose(make_round(rng, 4)) for _ in range(5)]
        policy.learn_many(decisions, [0.1, 0.2, 0.3, 0.4, 0.5])
        if not self.has_amendments:
            with pytest.raises(NotSupported):
                policy.amend(decisions[0], was=0.1, now=0.9)
            with pytest.raises(NotSupported):
                policy.unlearn(decisions[0], 0.1)
            return

        policy.amend(decisions[0], was=0.1, now=0.9)
        policy.unlearn(decisions[1], 0.2)

        straight.learn_many([decisions[0], *decisions[2:]], [0.9, 0.3, 0.4, 0.5])
        assert policy.round_index == straight.round_index == 5
        contexts = make_round(rng, 6)
        if not self.is_random:
            left, right = policy.choose(contexts), straight.choose(contexts)
            assert left.action == right.action
            np.testing.assert_allclose([left.mean, left.width], [right.mean, right.width], rtol=1e-7, atol=1e-9)
        policy.learn(decisions[1], 0.7)

    def test_corrections_reach_their_decision_where_contexts_repeat(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Repeated corrections count once."""
        if not self.has_amendments:
            pytest.skip("The policy has no corrections.")
        policy, straight = make_policy(), make_policy()
        contexts = make_round(np.random.default_rng(22), 4)
        decisions = [policy.choose(contexts) for _ in range(5)]
        policy.learn_many(decisions, [0.3, 0.1, 0.3, 0.3, 0.5])

        for _ in range(2):
            policy.amend(decisions[2], now=0.9)
        policy.unlearn(decisions[3])
        with pytest.raises(NotLearnt):
            policy.unlearn(decisions[3])

        straight.learn_many([*decisions[:3], decisions[4]], [0.3, 0.1, 0.9, 0.5])
        assert policy.round_index == straight.round_index == 5
        np.testing.assert_allclose(policy.probabilities(contexts), straight.probabilities(contexts), atol=1e-7)
        if not self.is_random:
            left, right = policy.choose(contexts), straight.choose(contexts)
            np.testing.assert_allclose([left.mean, left.width], [right.mean, right.width], rtol=1e-7, atol=1e-9)

    def test_what_was_never_learned_cannot_be_amended_or_unlearned(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """The model does not change."""
        policy = make_policy()
        decision = policy.choose(make_round(np.random.default_rng(12), 3))

        with pytest.raises(NotLearnt, match=decision.id):
            policy.amend(decision, was=0.1, now=0.2)
        with pytest.raises(NotLearnt, match=decision.id):
            policy.unlearn(decision, 0.1)

        assert policy.round_index == 1

    @pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, None, "much", 1j, [0.1, 0.2]])
    def test_a_reward_that_is_no_finite_number_is_rejected(
        self, make_policy: MakePolicy, make_round: MakeRound, reward: Any
    ) -> None:
        """The decision can still be learned."""
        policy = make_policy()
        decision = policy.choose(make_round(np.random.default_rng(13), 3))

        with pytest.raises(InvalidReward, match="reward"):
            policy.learn(decision, reward)

        policy.learn(decision, 0.5)
        assert policy.round_index == 2

    def test_a_reward_outside_the_declared_range_is_rejected(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """If a range is declared."""
        policy = make_policy()
        decision = policy.choose(make_round(np.random.default_rng(14), 3))

        if policy.reward_range is None:
            policy.learn(decision, 1e6)
        else:
            with pytest.raises(InvalidReward, match="reward_range"):
                policy.learn(decision, policy.reward_range[1] + 0.001)
            policy.learn(decision, policy.reward_range[1])

        assert policy.round_index == 2

    def test_rounds_without_actions_and_wrong_masks_are_rejected(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        policy = make_policy()
        contexts = make_round(np.random.default_rng(15), 3)

        n_actions = self._size(3)

        with pytest.raises(InvalidContexts, match="No action is eligible"):
            policy.choose(contexts, eligible=np.zeros(n_actions, dtype=bool))
        with pytest.raises(InvalidContexts, match="one truth value per action"):
            policy.choose(contexts, eligible=np.ones(n_actions - 1, dtype=bool))
        with pytest.raises(InvalidContexts, match="one truth value per action"):
            policy.choose(contexts, eligible=np.ones(n_actions, dtype=int))
        with pytest.raises(InvalidContexts, match="one id per action"):
            policy.choose(contexts, ids=["a", "b"][: n_actions - 1])
        with pytest.raises(InvalidContexts, match="'a' occurs twice"):
            policy.choose(contexts, ids=["a", *range(n_actions - 2), "a"])

    def test_a_saved_policy_goes_on_where_it_was(
        self, make_policy: MakePolicy, make_round: MakeRound, tmp_path: Path
    ) -> None:
        """Model, pending decisions, learned ids and random state are stored; later decisions are the same."""
        policy, rng = self._trained(make_policy, make_round), np.random.default_rng(16)
        pending, learned = policy.choose(make_round(rng, 4)), policy.choose(make_round(rng, 4))
        policy.expect(pending)
        policy.learn(learned, 0.5)

        policy.save(tmp_path / "policy.kb")
        opened = self._load(policy, tmp_path / "policy.kb")

        assert type(opened) is type(policy)
        assert opened.describe() == policy.describe()
        assert opened.fingerprint == policy.fingerprint
        assert opened.round_index == policy.round_index
        assert list(opened.pending) == [pending.id]
        with pytest.raises(AlreadyLearnt):
            opened.learn(learned, 0.5)
        for _ in range(15):
            contexts = make_round(rng, 5)
            left, right = policy.choose(contexts), opened.choose(contexts)
            assert (left.action, left.stage) == (right.action, right.stage)
            assert left.propensity == pytest.approx(right.propensity, rel=1e-9)
            reward = float(rng.uniform())
            policy.learn(left, reward)
            opened.learn(right, reward)
        opened.learn(pending, 0.3)

    def test_a_copy_is_independent(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """The copy issues its own ids."""
        policy = self._trained(make_policy, make_round)
        contexts = make_round(np.random.default_rng(17), 3)
        policy.expect(policy.choose(contexts))
        copied = policy.copy()

        left, right = policy.choose(contexts), copied.choose(contexts)
        copied.learn(right, 0.5)

        assert left.action == right.action
        assert left.id != right.id
        assert list(copied.pending) == list(policy.pending)
        assert copied.round_index == policy.round_index + 1

    def test_describe_gives_plain_values(self, make_policy: MakePolicy) -> None:
        """A row of results can then record its configuration."""
        description = make_policy().describe()

        assert description["class"] == type(make_policy()).__name__
        assert _is_plain(description)

    def test_describe_names_every_parameter(self, make_policy: MakePolicy) -> None:
        """Also those with default values, so that a changed default changes no stored policy; not seeds."""
        policy = make_policy()

        described = {name for name, declared in policy._declared.items() if declared.is_described}
        assert policy.describe().keys() == {"class", *described}
        assert inspect.signature(type(policy)).parameters.keys() == policy._declared.keys()
        assert policy._declared.keys() - described <= {"seed", "engine", "device"}

    def test_parameters_can_be_read(self, make_policy: MakePolicy) -> None:
        """Parameters are attributes under the constructor's names; `posterior` is the model that was built."""
        policy = make_policy()

        given = policy.get_params()
        assert given.keys() == policy._declared.keys()
        for name in (name for name in given if policy._declared[name].is_public):
            assert given[name] is None or getattr(policy, name) is given[name]

    def test_parameters_make_an_equal_policy(self, make_policy: MakePolicy, make_round: MakeRound) -> None:
        """`get_params` gives the arguments of a constructor, and `clone` calls it: nothing is learned."""
        policy = self._trained(make_policy, make_round)
        cloned, fresh = policy.clone(), make_policy()

        assert type(cloned) is type(policy)
        assert cloned.describe() == policy.describe() == fresh.describe()
        assert cloned.fingerprint == policy.fingerprint
        assert cloned.round_index == 1
        contexts = make_round(np.random.default_rng(23), 5)
        np.testing.assert_array_equal(cloned.probabilities(contexts), fresh.probabilities(contexts))
        _run(cloned, make_round, 3)
        assert policy.round_index == 13
        with pytest.raises(InvalidParameter, match="no parameter 'lenght_scale'"):
            policy.clone(lenght_scale=1.0)

    def test_parameters_are_set_before_anything_is_learned(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Setting all of them makes a new policy; later, and in a wrapped policy, it is rejected."""
        policy, fresh = make_policy(), make_policy()
        name = next(name for name, declared in policy._declared.items() if not declared.is_assignable)
        for part in vars(policy).values():
            if isinstance(part, Policy):
                fixed = next(name for name, declared in part._declared.items() if not declared.is_assignable)
                with pytest.raises(NotSupported, match="another one wraps"):
                    part.set_params(**{fixed: part.get_params()[fixed]})

        assert policy.set_params(**policy.get_params()) is policy

        assert policy.fingerprint == fresh.fingerprint
        contexts = make_round(np.random.default_rng(24), 5)
        left, right = policy.choose(contexts), fresh.choose(contexts)
        assert (left.action, left.propensity) == (right.action, right.propensity)
        with pytest.raises(InvalidParameter, match="no parameter 'lenght_scale'"):
            policy.set_params(lenght_scale=1.0)
        policy.expect(left)
        with pytest.raises(NotSupported, match=rf"policy\.clone\({name}=…\)"):
            policy.set_params(**{name: policy.get_params()[name]})
        policy.learn(left, 0.5)
        with pytest.raises(NotSupported, match=rf"policy\.clone\({name}=…\)"):
            policy.set_params(**{name: policy.get_params()[name]})
        assert policy.fingerprint == fresh.fingerprint

    def test_a_refit_with_the_same_parameters_changes_no_choice(
        self, make_policy: MakePolicy, make_round: MakeRound
    ) -> None:
        """Either the model is computed again from what was learned, or the call is rejected and changes nothing."""
        policy, replica = self._trained(make_policy, make_round), self._trained(make_policy, make_round)
        params = {name: value for name, value in policy.get_params().items() if name not in ("seed", "policy")}
        for one in (policy, replica):
            one.expect(one.choose(make_round(np.random.default_rng(31), 4)))
        refused = None
        try:
            policy.refit(**params)
        except NotSupported as error:
            refused = str(error)

        assert refused is None or "policy.clone(" in refused
        assert policy.fingerprint == replica.fingerprint
        contexts = make_round(np.random.default_rng(32), 5)
        np.testing.assert_allclose(policy.probabilities(contexts), replica.probabilities(contexts), rtol=0.0, atol=1e-7)
        (pending,), (other,) = policy.pending.values(), replica.pending.values()
        policy.learn(pending, 0.5)
        replica.learn(other, 0.5)
        assert policy.round_index == replica.round_index

    def test_a_changed_default_changes_no_saved_policy(
        self, make_policy: MakePolicy, make_round: MakeRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file holds every parameter. A default that it did not hold would be noticed here."""
        policy = self._trained(make_policy, make_round)
        before = policy.describe()
        policy.save(tmp_path / "policy.kb")
        for declared in policy._declared.values():
            if declared.is_described and declared.default is not inspect.Parameter.empty:
                monkeypatch.setattr(declared, "default", _Unusable())

        assert self._load(policy, tmp_path / "policy.kb").describe() == before

    def _load(self, policy: Policy, path: Path) -> Policy:
        """Load the file of a policy; what it cannot hold is passed, as by a user."""
        return load(path, kernel=_kernel_to_pass(policy.kernel), policies=self.own_classes)

    def _size(self, n_actions: int) -> int:
        """Return the number of actions of a round for which `n_actions` were requested."""
        return self.n_fixed or n_actions

    def _trained(self, make_policy: MakePolicy, make_round: MakeRound) -> Policy:
        policy = make_policy()
        _run(policy, make_round, 12)
        return policy


def _kernel_to_pass(kernel: Kernel | None) -> Kernel | None:
    """Return the kernel if a file cannot hold it, else None, so that the one in the file is used."""
    if kernel is None:
        return None
    try:
        kernel.pack()
    except CannotSave:
        return kernel
    return None


class _Unusable:
    """Default that no check accepts."""

    def __array__(self, *_: object, **__: object) -> Any:
        raise ValueError("a default was used")


def _largest_chi_square(freedom: int) -> float:
    """Return the value that a chi-square variable with this many degrees of freedom exceeds once in a million times."""
    from scipy.stats import chi2

    return float(chi2.isf(1e-6, freedom)) if freedom else 1e-9


def _run(policy: Policy, make_round: MakeRound, n_rounds: int) -> list[Decision]:
    rng, decisions = np.random.default_rng(99), []
    for _ in range(n_rounds):
        decision = policy.choose(make_round(rng, 5))
        rewards = rng.uniform(size=decision.n_actions)
        policy.learn(decision, float(rewards[decision.action]))
        decisions.append(decision)
    return decisions


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(part) for part in value)
    return value is None or isinstance(value, bool | int | float | str)
