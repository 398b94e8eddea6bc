import pickle
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import (
    DecisionError,
    ForeignDecision,
    ForeignFile,
    InvalidContexts,
    InvalidParameter,
    NotSupported,
)
from kernelbandits.kernels import Delta, FromCallable, Gaussian
from kernelbandits.policies import Policy
from kernelbandits.policies.wrappers import WrappedPolicy
from kernelbandits.selection import Catalog

KERNEL = Gaussian(length_scale=0.8)


def kernel_ucb(**options):
    policy = kb.KernelUCB(KERNEL, **{"regularization": 0.2, "exploration": 0.3, **options})
    rng = np.random.default_rng(1)
    policy.warm_start(rng.normal(size=(15, 2)), rng.normal(size=15))
    return policy


CONTEXTS = np.random.default_rng(2).normal(size=(5, 2))


class TestMixed:
    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
    def test_probabilities_are_total(self, epsilon):
        best = kernel_ucb().choose(CONTEXTS).action

        probabilities = kb.Mixed(kernel_ucb(), epsilon=epsilon, seed=0).probabilities(CONTEXTS)

        expected = np.full(5, epsilon / 5)
        expected[best] += 1.0 - epsilon
        np.testing.assert_allclose(probabilities, expected)

    def test_propensities_of_a_policy_that_randomizes_itself_are_total(self):
        policy = kb.Mixed(kb.Softmax(kernel_ucb(), temperature=0.4, seed=2), epsilon=0.5, seed=0)
        inside = kb.Softmax(kernel_ucb(), temperature=0.4).probabilities(CONTEXTS)

        decisions = [policy.choose(CONTEXTS) for _ in range(60)]

        assert {decision.action for decision in decisions} == set(range(5))
        for decision in decisions:
            assert decision.propensity == pytest.approx(0.5 * inside[decision.action] + 0.1)

    def test_the_policy_inside_learns_from_random_actions_too(self):
        policy, plain = kb.Mixed(kernel_ucb(), epsilon=0.9, seed=0), kernel_ucb()
        for reward in (0.3, -2.0, 0.7):
            decision = policy.choose(CONTEXTS)
            policy.learn(decision, reward)
            plain.warm_start(CONTEXTS[[decision.action]], [reward])

        assert policy.policy.posterior.n_observations == 18
        np.testing.assert_allclose(
            policy.policy.posterior.predict(CONTEXTS).mean, plain.posterior.predict(CONTEXTS).mean
        )

    def test_random_actions_carry_their_estimates_and_no_score(self):
        policy = kb.Mixed(kernel_ucb(), epsilon=1.0, seed=0)
        prediction = policy.policy.posterior.predict(CONTEXTS)
        best = kernel_ucb().choose(CONTEXTS).action

        decisions = [policy.choose(CONTEXTS) for _ in range(30)]

        for decision in decisions:
            assert decision.mean == pytest.approx(prediction.mean[decision.action])
            assert decision.width == pytest.approx(prediction.width[decision.action])
            assert np.isnan(decision.score) == (decision.action != best)

    def test_levels_learn_only_what_they_chose(self):
        inside = kb.SupKernelUCB(KERNEL, exploration=0.5, horizon=100, n_actions=5)
        policy, chosen = kb.Mixed(inside, epsilon=0.6, seed=0), 0
        rng = np.random.default_rng(4)

        for _ in range(40):
            contexts = rng.normal(size=(5, 2))
            own = policy.policy._pick(policy._actions(contexts, None))
            decision = policy.choose(contexts)
            is_own = decision.action == own.row
            chosen += is_own and own.stage is not None
            assert decision.stage == (own.stage if is_own else None)
            policy.learn(decision, float(rng.uniform()))

        assert sum(level.stage_observations for level in policy.policy.stages) == chosen
        assert 0 < chosen < 40
        assert policy.round_index == policy.policy.round_index == 41

    def test_a_policy_that_does_not_say_that_it_learns_from_any_action_is_rejected(self):
        class Weighted(kb.UniformRandom):
            learns_from_any_action = False

        class Choosy(kb.LinUCB):
            learns_from_any_action = False

        with pytest.raises(NotSupported, match="Weighted cannot be mixed"):
            kb.Mixed(Weighted(), epsilon=0.1)
        with pytest.raises(NotSupported, match="Guarded cannot be mixed"):
            kb.Mixed(kb.Guarded(Choosy(), baseline=0), epsilon=0.1)

    @pytest.mark.parametrize("epsilon", [-0.1, 1.1, np.nan, None, "often"])
    def test_epsilon_is_a_probability(self, epsilon):
        with pytest.raises(InvalidParameter, match="Epsilon"):
            kb.Mixed(kernel_ucb(), epsilon=epsilon)


class TestSoftmax:
    @pytest.mark.parametrize("temperature", [0.05, 2.0])
    def test_probabilities_are_the_softmax_of_the_scores(self, temperature):
        prediction = kernel_ucb().posterior.predict(CONTEXTS)

        probabilities = kb.Softmax(kernel_ucb(), temperature=temperature).probabilities(CONTEXTS)

        weights = np.exp((prediction.mean + 0.3 * prediction.width) / temperature)
        np.testing.assert_allclose(probabilities, weights / weights.sum(), rtol=1e-9)

    def test_a_low_temperature_is_the_policy_inside(self):
        policy, plain = kb.Softmax(kernel_ucb(), temperature=1e-300, seed=0), kernel_ucb()

        decision = policy.choose(CONTEXTS)

        assert (decision.action, decision.propensity) == (plain.choose(CONTEXTS).action, 1.0)
        assert decision.score == pytest.approx(plain.choose(CONTEXTS).score)

    def test_what_is_no_temperature_and_no_such_policy_is_rejected(self):
        with pytest.raises(InvalidParameter, match="temperature"):
            kb.Softmax(kernel_ucb(), temperature=0.0)
        with pytest.raises(InvalidParameter, match="Softmax needs the means and widths"):
            kb.Softmax(kb.UniformRandom(), temperature=1.0)


def known(means, times=100, **options):
    """Arms "a", "b", … whose mean rewards are known nearly exactly."""
    policy = kb.KernelUCB(Delta(), **{"regularization": 1e-3, "exploration": 1.0, **options})
    policy.warm_start(list("abcdefg")[: len(means)], means, times=times)
    return policy


class TestGuarded:
    @pytest.mark.parametrize(
        ("means", "margin", "item"),
        [
            ([0.5, 0.6, 0.4], 0.0, "a"),  # bounds overlap: widths are 0.1
            ([0.5, 0.8, 0.75], 0.0, "b"),
            ([0.5, 0.8, 0.75], 0.2, "a"),
            ([0.5, 0.8, 1.0], 0.2, "c"),
        ],
    )
    def test_the_baseline_is_left_only_for_what_is_better_for_sure(self, means, margin, item):
        policy = kb.Guarded(known(means), baseline="a", margin=margin)

        decision = policy.choose(["a", "b", "c"], ids=["a", "b", "c"])

        assert (decision.item, decision.propensity) == (item, 1.0)
        assert policy.probabilities(["a", "b", "c"], ids=["a", "b", "c"])[decision.action] == 1.0

    def test_without_its_guard_the_policy_inside_would_leave_the_baseline(self):
        assert known([0.5, 0.6, 0.4]).choose(["a", "b", "c"]).action == 1

    def test_wide_actions_are_not_better_for_sure(self):
        policy = kb.Guarded(known([0.5, 5.0], times=[100, 1], regularization=1.0, exploration=5.0), baseline="a")

        assert policy.choose(["a", "b", "c"], ids=["a", "b", "c"]).item == "a"

    @pytest.mark.parametrize("eligible", [[False, True, True], [True, True, True]])
    def test_without_the_baseline_the_policy_inside_is_free(self, eligible):
        items = ["a", "b", "c"] if eligible[0] is False else ["d", "b", "c"]
        policy, mask = kb.Guarded(known([0.5, 0.6, 0.4]), baseline="a", absent="free"), np.array(eligible)

        decision = policy.choose(items, ids=items, eligible=mask)

        assert decision.action == known([0.5, 0.6, 0.4]).choose(items, eligible=mask).action

    def test_items_of_a_catalog_are_found(self):
        catalog = Catalog(["a", "b", "c"], ids=["a", "b", "c"])
        policy = kb.Guarded(known([0.5, 0.6, 0.4]), baseline="a")

        assert policy.choose(catalog).item == "a"
        assert policy.choose(catalog.without(["c"])).item == "a"
        assert policy.choose(catalog.without(["a"])).item == "b"
        with pytest.raises(InvalidContexts, match="'a' is not an action of this round"):
            policy.choose(Catalog(["x", "b"], ids=["x", "b"]))

    def test_rows_name_the_baseline_where_there_are_no_ids(self):
        policy = kb.Guarded(known([0.5, 0.6, 0.4]), baseline=np.int64(2), absent="free")

        assert policy.choose(["a", "b", "c"]).action == 2
        assert policy.choose(["a", "b"]).action == 1
        assert policy.choose(["a", "b", "c"], eligible=np.array([True, False, True])).action == 2

    def test_a_misspelt_baseline_does_not_switch_the_guard_off(self):
        policy = kb.Guarded(known([0.5, 0.6, 0.4]), baseline="A")

        for ids in (["a", "b", "c"], None):
            with pytest.raises(InvalidContexts, match="'A' is not an action of this round"):
                policy.choose(["a", "b", "c"], ids=ids)
        with pytest.raises(InvalidParameter, match="'free' by absent=…, got 'maybe'"):
            kb.Guarded(known([0.5]), baseline="a", absent="maybe")

    def test_what_is_no_baseline_and_no_margin_is_rejected(self):
        with pytest.raises(InvalidParameter, match="named by its id"):
            kb.Guarded(known([0.5]), baseline=None)
        with pytest.raises(InvalidParameter, match="margin"):
            kb.Guarded(known([0.5]), baseline="a", margin=-0.1)
        with pytest.raises(InvalidParameter, match="Guarded needs"):
            kb.Guarded(kb.KernelThompson(Delta()), baseline="a")


class TestEveryWrapper:
    def test_only_a_policy_is_wrapped(self):
        with pytest.raises(InvalidParameter, match=r"Mixed wraps a policy, got the class LinUCB\. Call it: LinUCB"):
            kb.Mixed(kb.LinUCB, epsilon=0.1)
        with pytest.raises(InvalidParameter, match="Mixed wraps a policy, got Gaussian"):
            kb.Mixed(KERNEL, epsilon=0.1)

    def test_a_policy_is_taken_over_with_its_rounds_and_what_it_awaits(self):
        inside = kernel_ucb()
        first, second = inside.choose(CONTEXTS), inside.choose(CONTEXTS)
        inside.learn(first, 0.5)
        inside.expect(second)

        policy = kb.Mixed(inside, epsilon=0.1, seed=0)

        assert policy.round_index == 3
        assert list(policy.pending) == [second.id]
        with pytest.raises(ForeignDecision):
            policy.learn(second, 0.1)
        inside.learn(second, 0.1)
        assert (policy.round_index, dict(policy.pending)) == (3, {})

    def test_attributes_of_the_policy_inside_can_be_read(self):
        inside = kb.KernelUCB(Gaussian(length_scale=0.4), regularization=0.3, exploration=0.7)
        policy = kb.Mixed(kb.Guarded(inside, baseline=0), epsilon=0.2)

        assert policy.exploration is inside.exploration
        assert policy.posterior is inside.posterior
        assert (policy.regularization, policy.epsilon) == (0.3, 0.2)
        assert pickle.loads(pickle.dumps(policy)).regularization == copy(policy).regularization == 0.3
        with pytest.raises(AttributeError, match="'KernelUCB' object has no attribute 'temperature'"):
            policy.temperature  # noqa: B018
        with pytest.raises(AttributeError, match="'Mixed' object has no attribute '_expected'"):
            policy._expected  # noqa: B018

    def test_decisions_of_a_wrapper_are_its_own(self):
        policy = kb.Mixed(kernel_ucb(), epsilon=0.1, seed=0)
        decision = policy.choose(CONTEXTS)

        with pytest.raises(ForeignDecision):
            policy.policy.learn(decision, 0.5)
        with pytest.raises(ForeignDecision):
            kb.Mixed(kernel_ucb(), epsilon=0.2).learn(decision, 0.5)
        assert policy.fingerprint != kb.Mixed(kernel_ucb(exploration=0.4), epsilon=0.1).fingerprint

    def test_a_schedule_inside_counts_the_rounds(self):
        schedule = kb.theory.GPUCBFinite(failure_probability=0.1)
        plain, policy = kernel_ucb(exploration=schedule), kb.Mixed(kernel_ucb(exploration=schedule), epsilon=0.0)

        for _ in range(6):
            decisions = [plain.choose(CONTEXTS), policy.choose(CONTEXTS)]
            assert decisions[0].score == pytest.approx(decisions[1].score)
            plain.learn(decisions[0], 0.1)
            policy.learn(decisions[1], 0.1)

    def test_an_explanation_comes_from_inside(self):
        policy, plain = kb.Softmax(kernel_ucb(), temperature=0.1, seed=0), kernel_ucb()
        decision = policy.choose(CONTEXTS)

        explanation = policy.explain(decision)

        assert explanation.mean == pytest.approx(plain.posterior.predict(CONTEXTS).mean[decision.action])
        with pytest.raises(ForeignDecision):
            policy.explain(replace(decision, policy="else"))

    def test_a_batch_that_fails_leaves_rounds_together(self):
        policy = kb.Mixed(kb.SupKernelUCB(KERNEL, exploration=0.5, horizon=90, n_actions=5), epsilon=0.5, seed=0)
        first, second = policy.choose(CONTEXTS), policy.choose(CONTEXTS)

        with pytest.raises(DecisionError, match="level"):
            policy.learn_many([first, replace(second, stage=1_000)], [0.5, 0.5])
        policy.learn(first, 0.5)

        assert policy.round_index == policy.policy.round_index == 2

    def test_a_kernel_of_ones_own_is_handed_over_again(self, tmp_path):
        def similarity(first, second):
            return np.asarray(first) @ np.asarray(second).T

        policy = kb.Mixed(kb.KernelUCB(FromCallable(similarity, kind=kb.kernels.Rows())), epsilon=0.2, seed=0)
        policy.learn(policy.choose(CONTEXTS), 0.5)
        policy.save(tmp_path / "policy")

        opened = kb.load(tmp_path / "policy", kernel=FromCallable(similarity, kind=kb.kernels.Rows()))

        np.testing.assert_allclose(opened.probabilities(CONTEXTS), policy.probabilities(CONTEXTS))
        with pytest.raises(ForeignFile, match="Hand it over"):
            kb.load(tmp_path / "policy")

    def test_the_kernel_of_a_file_may_be_given_and_is_compared(self, tmp_path):
        policy = kb.Mixed(kb.Softmax(kernel_ucb(), temperature=0.5, seed=1), epsilon=0.2, seed=0)
        policy.save(tmp_path / "policy")

        opened = kb.load(tmp_path / "policy", kernel=KERNEL)

        assert opened.describe() == policy.describe()
        assert opened.policy.policy._ledger is opened._ledger
        with pytest.raises(ForeignFile, match="not the one this policy learned with"):
            kb.load(tmp_path / "policy", kernel=Gaussian(length_scale=0.9))


ROWS = np.random.default_rng(0).normal(size=(6, 2)) / 4.0

LEARN_FROM_ANY = {
    "UCB1": lambda: kb.UCB1(),
    "KLUCB": lambda: kb.KLUCB(),
    "ConfidenceBall": lambda: kb.ConfidenceBall(ROWS, exploration=0.03),
    "UncertaintyEllipsoid": lambda: kb.UncertaintyEllipsoid(ROWS, exploration=0.1),
    "PEGE": lambda: kb.PEGE(ROWS),
    "GridGP": lambda: kb.GridGP(kb.kernels.Linear(), ROWS, n_points=3),
    "PhasedElimination": lambda: kb.PhasedElimination(Gaussian(length_scale=0.3), ROWS, exploration=0.3),
    "OFUL": lambda: kb.OFUL(noise_scale=0.5, norm_bound=1.0),
    "SupLinRel": lambda: kb.SupLinRel(horizon=500, n_actions=6),
}


@pytest.mark.parametrize("make", LEARN_FROM_ANY.values(), ids=LEARN_FROM_ANY)
def test_policies_that_learn_from_any_action_can_be_mixed_and_saved(make, tmp_path):
    policy, rng = kb.Mixed(make(), epsilon=0.3, seed=1), np.random.default_rng(2)

    for t in range(120):
        decision = policy.choose(ROWS)
        assert decision.propensity >= 0.3 / 6 - 1e-12
        policy.learn(decision, float(rng.uniform()))
        if t == 60:
            policy.save(tmp_path / "policy.kb")
            opened = kb.load(tmp_path / "policy.kb")
            np.testing.assert_allclose(opened.probabilities(ROWS), policy.probabilities(ROWS))

    assert policy.round_index == 121
    assert policy.probabilities(ROWS).sum() == pytest.approx(1.0)


def test_random_rounds_of_a_mixed_guard_report_their_estimates():
    policy = kb.Mixed(kb.Guarded(kernel_ucb(), baseline=0), epsilon=1.0, seed=0)

    decisions = [policy.choose(CONTEXTS) for _ in range(10)]

    assert np.isfinite([[decision.mean, decision.width] for decision in decisions]).all()


@pytest.mark.parametrize("wrap", [lambda p: kb.Mixed(p, epsilon=0.0, seed=0), lambda p: kb.Softmax(p, temperature=0.1)])
def test_a_rejected_call_inside_keeps_one_ledger(wrap):
    policy = wrap(kb.OFUL(noise_scale=0.1, norm_bound=1.0, switching=0.5))
    policy.learn(policy.choose(ROWS), 0.5)

    with pytest.raises(InvalidContexts):
        policy.warm_start(np.ones((2, 3)), [1.0, 1.0])

    for _ in range(5):
        policy.learn(policy.choose(ROWS), 0.5)
    assert policy.round_index == policy.policy.round_index == 7
    policy.expect(policy.choose(ROWS))
    assert policy.policy.pending.keys() == policy.pending.keys()


def test_a_rejected_play_keeps_one_ledger():
    policy = kb.Mixed(kernel_ucb(), epsilon=0.0, seed=0)

    with pytest.raises(InvalidContexts):
        policy.play([CONTEXTS, np.full_like(CONTEXTS, np.nan)], np.zeros((2, len(CONTEXTS))))

    policy.learn(policy.choose(CONTEXTS), 0.5)
    assert policy.round_index == policy.policy.round_index == 2


OWN_HOOKS = {
    "_pick",
    "_pick_batch",
    "_probabilities",
    "_probabilities_batch",
    "_ranking",
    "_play",
    "_play_round",
    "_parameters",
    "_structure",
    "_build",
    "_state",
    "_restore",
    "_probe",
    "_pending_key",
    "_pending_counts",
    "_draw_by",
    "_note_random",
    "_searches_boxes",
}
"""Hooks that a wrapper answers itself; every other one is passed to the wrapped policy."""

HELPERS = {name for name in vars(Policy) if name.startswith(("_choose", "_require"))} | {
    "_actions", "_decision", "_digest", "_mark", "_note_references", "_noting_parts", "_own_posterior", "_rng",
    "_warn_if_inexact", "_withdraw", "_is_numbered", "_plain_kind", "_has_notes_to_make", "_seed_level",
    "_actions_of_each", "_announce_refit", "_assign", "_continue_from", "_is_wrapped", "_not_assignable", "_put",
    "_reserved", "_validate", "_validates_rounds", "_limit", "_n_limited", "_warn_beyond", "_has_warned_beyond",
    "_box_actions", "_listed", "_check_length", "_methods", "_observed", "_repr_html_", "_set_up", "_without_horizon",
    "_known_actions", "_is_outermost",
}  # fmt: skip
"""Methods that no policy overrides, and class attributes."""


def test_a_wrapper_passes_every_hook_on():
    """A new hook of `Policy` is passed to the wrapped policy, or listed above."""
    hooks = {name for name in vars(Policy) if name.startswith("_") and not name.startswith(("__", "_abc"))}

    assert hooks - HELPERS - OWN_HOOKS <= set(vars(WrappedPolicy))
