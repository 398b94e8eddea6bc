"""`refit`: a policy with other parameters that keeps what it learned."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from interrupts import interrupted_everywhere
from kernelbandits.errors import (
    ForeignDecision,
    InvalidContexts,
    InvalidParameter,
    NotAssignable,
    NotSupported,
    NumericalError,
)
from kernelbandits.kernels import Gaussian, Linear, Spectrum
from kernelbandits.posterior import ExactPosterior, Posterior, posterior_factory
from kernelbandits.theory.exploration import Constant, Mixture

NARROW, WIDE = Gaussian(length_scale=0.3), Gaussian(length_scale=0.9)
MIXTURE = Mixture(noise_scale=0.3, norm_bound=1.0, failure_probability=0.1)
WINDOW = posterior_factory("windowed", length=12)

CASES = {
    "regularization": (
        kb.KernelUCB,
        {"kernel": NARROW, "regularization": 0.2, "exploration": 0.4},
        {"regularization": 0.7},
    ),
    "kernel": (kb.KernelUCB, {"kernel": NARROW, "regularization": 0.2, "exploration": 0.4}, {"kernel": WIDE}),
    "schedule": (
        kb.KernelUCB,
        {"kernel": NARROW, "regularization": 0.2, "exploration": 0.4},
        {"kernel": WIDE, "exploration": MIXTURE, "regularization": 0.5},
    ),
    "assignable": (kb.KernelUCB, {"kernel": NARROW, "exploration": 0.4}, {"exploration": 0.1}),
    "form": (
        kb.KernelUCB,
        {"kernel": Linear() + 0.5, "posterior": "primal"},
        {"posterior": "exact", "regularization": 0.3},
    ),
    "window": (kb.KernelUCB, {"kernel": NARROW, "posterior": WINDOW}, {"kernel": WIDE, "regularization": 0.3}),
    "range": (kb.KernelUCB, {"kernel": NARROW, "reward_range": (0.0, 1.0)}, {"reward_range": (-1.0, 2.0)}),
    "ties": (kb.KernelUCB, {"kernel": NARROW, "seed": 4}, {"ties": "random", "regularization": 0.4}),
    "GPUCB": (kb.GPUCB, {"kernel": NARROW, "noise_variance": 0.1}, {"noise_variance": 0.3, "failure_probability": 0.2}),
    "Thompson": (
        kb.KernelThompson,
        {"kernel": NARROW, "exploration": 0.3, "seed": 1},
        {"kernel": WIDE, "regularization": 0.4, "propensity_draws": 64},
    ),
    "SquareCB": (kb.KernelSquareCB, {"kernel": NARROW, "seed": 1}, {"kernel": WIDE, "regularization": 0.4}),
    "LinUCB": (kb.LinUCB, {"exploration": 0.4}, {"regularization": 0.3}),
    "disjoint": (kb.LinUCB, {"model": "disjoint", "exploration": 0.4}, {"regularization": 0.3}),
    "hybrid": (
        kb.LinUCB,
        {"model": "hybrid", "shared_columns": [0], "exploration": 0.4},
        {"regularization": 0.3, "shared_columns": [1]},
    ),
    "OFUL": (kb.OFUL, {"noise_scale": 0.3, "norm_bound": 1.0}, {"regularization": 0.3, "failure_probability": 0.2}),
    "UCB1": (kb.UCB1, {"seed": 0}, {"ties": "random"}),
    "uniform": (kb.UniformRandom, {"seed": 0}, {}),
    "Mixed": (
        lambda epsilon, **inner: kb.Mixed(kb.KernelUCB(**inner), epsilon=epsilon, seed=3),
        {"kernel": NARROW, "regularization": 0.2, "epsilon": 0.3},
        {"kernel": WIDE, "regularization": 0.5, "epsilon": 0.1},
    ),
    "inside": (
        lambda **inner: kb.Mixed(kb.KernelUCB(**inner), epsilon=0.3, seed=3),
        {"kernel": NARROW, "regularization": 0.2},
        {"kernel": WIDE, "exploration": 0.2},
    ),
    "Guarded": (
        lambda margin, **inner: kb.Mixed(
            kb.Guarded(kb.KernelUCB(**inner), baseline=0, margin=margin), epsilon=0.3, seed=3
        ),
        {"kernel": NARROW, "regularization": 0.2, "margin": 0.0},
        {"kernel": WIDE, "margin": 0.1},
    ),
}


def rows(t, n_actions=6):
    """Contexts of a round; a few of them come back."""
    return np.random.default_rng([t % 17, 5]).uniform(size=(n_actions, 2))


def history():
    """Actions and rewards of 40 rounds, the same for every policy."""
    rng = np.random.default_rng(11)
    return [(int(rng.integers(6)), float(rng.uniform())) for _ in range(40)]


def trained(policy):
    """Learns the history, whatever it would choose, and returns the decisions. Two are pending at the end."""
    decisions = []
    for t, (action, reward) in enumerate(history()):
        chosen = policy.choose(rows(t))
        contexts = rows(t)
        decision = kb.Decision(
            action=action, context=contexts[action], item=action, n_actions=6, id=chosen.id, policy=chosen.policy
        )
        decisions.append(decision)
        if t < 38:
            policy.learn(decision, reward)
        else:
            policy.expect(decision)
    policy.amend(decisions[33], now=0.25)
    policy.unlearn(decisions[36])
    return decisions


def assert_same(policy, fresh, t=50):
    """Two policies with the same parameters that answer alike now, and after more rounds."""
    assert policy.describe() == fresh.describe()
    assert policy.fingerprint == fresh.fingerprint
    for one in (policy, fresh):  # they may have drawn different numbers of times
        one.reseed(9)
    for later in range(t, t + 6):
        contexts = rows(later + 100, 9)
        assert_allclose(policy.probabilities(contexts), fresh.probabilities(contexts), rtol=0, atol=1e-9)
        ours, theirs = policy.choose(contexts), fresh.choose(contexts)
        assert (ours.action, ours.round_index) == (theirs.action, theirs.round_index)
        assert_allclose(
            [ours.mean, ours.width, ours.propensity], [theirs.mean, theirs.width, theirs.propensity], atol=1e-9
        )
        policy.learn(ours, 0.4)
        fresh.learn(theirs, 0.4)


@pytest.mark.parametrize("name", CASES)
def test_it_is_a_new_policy_that_learned_the_same(name):
    make, before, changes = CASES[name]
    policy, fresh = make(**before), make(**{**before, **changes})
    decisions, others = trained(policy), trained(fresh)

    assert policy.refit(**changes) is policy

    assert list(policy.pending) == [decision.id for decision in decisions[38:]]
    for own, other in ((decisions[38], others[38]),):  # made before, learned after
        policy.learn(own, 0.9)
        fresh.learn(other, 0.9)
    policy.amend(decisions[34], now=0.1)
    fresh.amend(others[34], now=0.1)
    policy.unlearn(decisions[35])
    fresh.unlearn(others[35])
    assert_same(policy, fresh)


def test_the_wrong_parameters_would_be_seen():
    make, before, changes = CASES["kernel"]
    policy, fresh = make(**before), make(**{**before, "kernel": Gaussian(length_scale=0.31)})
    trained(policy), trained(fresh)
    policy.refit(**changes)

    with pytest.raises(AssertionError):
        assert_same(policy, fresh)
    assert not np.allclose(policy.probabilities(rows(3)), 0)


def test_a_saved_policy_continues_after_a_refit(tmp_path):
    make, before, changes = CASES["kernel"]
    policy = make(**before)
    decisions = trained(policy)
    policy.save(tmp_path / "before")
    opened = kb.load(tmp_path / "before").refit(**changes)
    policy.refit(**changes)
    policy.save(tmp_path / "after")
    again = kb.load(tmp_path / "after")

    for one in (policy, opened, again):
        one.learn(decisions[38], 0.9)
    assert_same(policy, opened)
    assert again.describe() == policy.describe()
    assert again.remember == policy.remember


def test_a_catalog_and_a_copy_follow():
    catalog = kb.Catalog(np.random.default_rng(0).uniform(size=(50, 2)))
    policy = kb.KernelUCB(NARROW, regularization=0.2, exploration=0.4)
    for _ in range(20):
        policy.learn(policy.choose(catalog), 0.3)
    left = copy.deepcopy(policy)
    policy.refit(kernel=WIDE)

    fresh = kb.KernelUCB(WIDE, regularization=0.2, exploration=0.4)
    points, _, counts, sums = left.posterior.support()
    fresh.warm_start(points, sums / counts, times=counts)
    assert policy.choose(catalog).action == fresh.choose(catalog).action
    assert_allclose(policy.choose(catalog).mean, fresh.choose(catalog).mean, atol=1e-10)
    assert left.kernel == NARROW


class TestEvents:
    def test_a_refit_an_assignment_and_set_params_are_replayed(self):
        policy, replica, calls = kb.KernelUCB(NARROW), kb.KernelUCB(NARROW), []
        policy.subscribe(lambda events: calls.append(list(events)))

        policy.set_params(regularization=0.5)
        decision = policy.choose(rows(0))
        policy.learn(decision, 0.5)
        policy.refit(kernel=WIDE, regularization=0.2)
        policy.exploration = 0.3
        policy.refit(exploration=0.2)
        policy.amend(decision, now=0.7)
        policy.refit()

        assert [[event.kind for event in events] for events in calls] == [
            ["refit"], ["learn"], ["refit"], ["refit"], ["refit"], ["amend"],
        ]  # fmt: skip
        assert calls[2][0].parameters == {"kernel": WIDE, "regularization": 0.2}
        for (event,) in calls:
            event.apply(replica)
        assert_same(policy, replica)

    def test_a_wrapper_announces_once_and_replays_what_was_changed_inside(self):
        policy, replica = (kb.Mixed(kb.KernelUCB(NARROW), epsilon=0.2, seed=1) for _ in range(2))
        calls = []
        policy.subscribe(lambda events: calls.append(list(events)))

        policy.learn(policy.choose(rows(0)), 0.5)
        replica.choose(rows(0))
        policy.refit(epsilon=0.5, kernel=WIDE)
        policy.policy.exploration = 0.3

        assert [len(events) for events in calls] == [1, 1, 1]
        for (event,) in calls:
            event.apply(replica)
        assert_same(policy, replica)

    def test_a_listener_that_rejects_undoes_the_refit(self):
        policy = kb.Mixed(kb.KernelUCB(NARROW), epsilon=0.2, seed=1)
        trained(policy)
        before, description = policy.policy._state(), policy.describe()

        def refuse(_events):
            raise RuntimeError("full")

        policy.subscribe(refuse)
        with pytest.raises(RuntimeError, match="full"):
            policy.refit(kernel=WIDE, epsilon=0.4)
        with pytest.raises(RuntimeError, match="full"):
            policy.policy.exploration = 0.1

        assert policy.describe() == description
        for name, array in before["posterior"].items():
            assert np.array_equal(array, policy.policy._state()["posterior"][name])


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "changes", "error", "message"),
        [
            ("kernel", {"kernel": Spectrum(n=2)}, NotSupported, "Rows were learned.*Strings"),
            ("kernel", {"kernel": Gaussian(length_scale=[1.0, 2.0, 3.0])}, InvalidContexts, "3"),
            ("kernel", {"regularization": -1.0}, InvalidParameter, "positive and finite"),
            ("kernel", {"lenght": 3}, InvalidParameter, "no parameter 'lenght'"),
            ("kernel", {"seed": 3}, NotSupported, r"policy\.reseed\(seed\)"),
            ("kernel", {"posterior": WINDOW}, NotSupported, "How rewards are forgotten"),
            ("window", {"posterior": "exact"}, NotSupported, "How rewards are forgotten"),
            ("window", {"posterior": posterior_factory("windowed", length=5)}, NotSupported, "are forgotten"),
            ("range", {"reward_range": (0.0, 0.5)}, NotSupported, "new range must contain it"),
            ("LinUCB", {"model": "disjoint"}, NotSupported, "Rows were learned"),
            ("OFUL", {"switching": 0.5}, NotSupported, "rare switching"),
            ("UCB1", {"reward_range": (0.0, 2.0)}, NotSupported, "measures what it learned by its reward range"),
            ("Mixed", {"policy": kb.LinUCB()}, NotSupported, "keeps the policy that it wraps"),
            ("Mixed", {"epsilom": 0.3}, InvalidParameter, "no parameter 'epsilom'"),
        ],
    )
    def test_a_rejected_refit_changes_nothing(self, name, changes, error, message):
        make, before, _ = CASES[name]
        policy, replica = make(**before), make(**before)
        decisions, others = trained(policy), trained(replica)

        with pytest.raises(error, match=message):
            policy.refit(**changes)

        policy.learn(decisions[38], 0.9)
        replica.learn(others[38], 0.9)
        assert_same(policy, replica)

    def test_a_regularization_that_rounding_swallows_is_rejected(self):
        policy = kb.KernelUCB(kb.kernels.FromCallable(lambda x, z: 1e8 * (x @ z.T)), regularization=1e4)
        decisions = trained(policy)
        with pytest.raises(NumericalError, match="Nothing was changed"):
            policy.refit(regularization=1e-12)
        policy.learn(decisions[38], 0.9)
        assert policy.regularization == policy.posterior.regularization == 1e4

    def test_merged_sums_hold_for_other_regularization_of_a_shared_model_only(self):
        for model, message in (("shared", None), ("disjoint", "merged into sums")):
            policy, fresh = (kb.LinUCB(model=model, regularization=g) for g in (1.0, 0.3))
            for one in (policy, fresh):
                one.posterior.keep = 10
                for t in range(3):
                    one.warm_start(rows(t, 30), np.linspace(0.0, 1.0, 30))
                    one.choose(rows(t))
            assert policy.posterior.n_merged
            if message is None:
                policy.refit(regularization=0.3)
                assert_allclose(policy.choose(rows(5)).mean, fresh.choose(rows(5)).mean, atol=1e-10)
            else:
                with pytest.raises(NotSupported, match=message):
                    policy.refit(regularization=0.3)
                policy.refit(ties="random")

    def test_policies_whose_model_depends_on_parameters_name_the_remedy(self):
        policy = kb.SupKernelUCB(NARROW, exploration=0.3)
        assert policy.refit(regularization=0.5).regularization == 0.5  # nothing was learned yet
        policy.learn(policy.choose(rows(0)), 0.5)
        with pytest.raises(NotSupported, match=r"policy\.clone\(regularization=…\)"):
            policy.refit(regularization=0.2)

    def test_a_posterior_of_ones_own_is_not_refitted(self):
        class Own(ExactPosterior):
            def _note_change(self):
                self._note_copy()

        Own._note_change = Posterior._note_change
        policy = kb.KernelUCB(NARROW, posterior=lambda kernel, gamma: Own(kernel, regularization=gamma))
        policy.learn(policy.choose(rows(0)), 0.5)
        with pytest.raises(NotSupported, match="posterior of your own"):
            policy.refit(regularization=0.5)

    def test_a_wrapped_policy_is_changed_through_its_wrapper(self):
        policy = kb.Mixed(kb.KernelUCB(NARROW), epsilon=0.2)
        with pytest.raises(NotSupported, match="`refit` of the wrapper"):
            policy.policy.refit(regularization=0.5)
        for name in ("exploration", "regularization", "posterior"):
            with pytest.raises(NotAssignable, match=rf"{name!r} belongs to the policy that Mixed wraps"):
                setattr(policy, name, 0.5)
        assert policy.refit(exploration=0.5).policy.exploration == Constant(0.5)
        policy.note = "of one's own"
        assert policy.note == "of one's own"

    def test_a_decision_of_another_policy_is_still_foreign(self):
        policy, other = kb.KernelUCB(NARROW), kb.KernelUCB(WIDE, regularization=0.4)
        decision = other.choose(rows(0))
        policy.refit(kernel=WIDE)
        with pytest.raises(ForeignDecision):
            policy.learn(decision, 0.5)


def test_an_interrupted_refit_changes_all_or_nothing():
    def made():
        policy = kb.KernelUCB(NARROW, regularization=0.2)
        for t in range(3):
            policy.learn(policy.choose(rows(t)), 0.1 * t)
        policy.expect(policy.choose(rows(4)))
        return policy

    def seen(policy):
        state = policy.posterior.predict(rows(7))
        return policy.describe(), state.mean.tolist(), state.width.tolist(), len(policy.pending), policy.round_index

    before, after = made(), made().refit(kernel=WIDE, regularization=0.7)
    n_interrupts = 0
    for policy in interrupted_everywhere(made, lambda policy: policy.refit(kernel=WIDE, regularization=0.7)):
        n_interrupts += 1
        assert seen(policy) in (seen(before), seen(after))

    assert n_interrupts > 30
