"""`refit=`: policies that learn the parameters of their kernel from their own rewards."""

import copy
import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from interrupts import interrupted_everywhere
from kernelbandits.errors import DamagedFile, GuaranteeVoid, InvalidParameter, NotSupported, NumericalError
from kernelbandits.evaluation import coverage
from kernelbandits.kernels import Delta, Gaussian, Linear, PairProduct, Spectrum
from kernelbandits.policies.experts import KernelEpochGreedy
from kernelbandits.posterior import Refit, optimize_kernel, posterior_factory
from kernelbandits.posterior.parameter_search import ParameterSearch
from kernelbandits.theory.exploration import Mixture

WRONG = Gaussian(length_scale=3.0)

POLICIES = {
    "KernelUCB": lambda **more: kb.KernelUCB(WRONG, exploration=0.4, **more),
    "per column": lambda **more: kb.KernelUCB(Gaussian(length_scale=[3.0, 3.0]), exploration=0.4, **more),
    "sum": lambda **more: kb.KernelUCB(0.5 * WRONG + 0.5 * Linear(), exploration=0.4, **more),
    "exact": lambda **more: kb.KernelUCB(WRONG, exploration=0.4, posterior="exact", **more),
    "linear": lambda **more: kb.KernelUCB(Linear() + 0.5, regularization=30.0, exploration=0.4, **more),
    "likelihood": lambda **more: kb.KernelUCB(
        WRONG,
        exploration=0.4,
        **{**more, "refit": more.get("refit") and Refit(criterion="marginal_likelihood", every=10)},
    ),
    "KernelThompson": lambda **more: kb.KernelThompson(WRONG, seed=3, propensity_draws=64, **more),
    "by features": lambda **more: kb.KernelThompson(
        WRONG, seed=3, draws="features", n_features=50, propensity_draws=16, **more
    ),
    "KernelSquareCB": lambda **more: kb.KernelSquareCB(WRONG, seed=3, **more),
    "KernelEpochGreedy": lambda **more: KernelEpochGreedy(WRONG, n_actions=6, complexity=100.0, seed=3, **more),
    "Mixed": lambda **more: kb.Mixed(kb.KernelUCB(WRONG, exploration=0.4, **more), epsilon=0.2, seed=3),
    "Softmax": lambda **more: kb.Softmax(kb.KernelUCB(WRONG, exploration=0.4, **more), temperature=0.2, seed=3),
    "Guarded": lambda **more: kb.Mixed(
        kb.Guarded(kb.KernelUCB(WRONG, exploration=0.4, **more), baseline=0, margin=0.2), epsilon=0.2, seed=3
    ),
}


def rows(t, n_actions=6):
    return np.random.default_rng([t, 5]).uniform(size=(n_actions, 2))


def reward(row):
    return float(0.5 + 0.5 * np.sin(9.0 * row[0]))


def played(policy, rounds=range(45)):
    """Plays rounds, and returns the decisions with their rewards."""
    history = []
    for t in rounds:
        decision = policy.choose(rows(t))
        history.append((decision, reward(rows(t)[decision.action])))
        policy.learn(*history[-1])
    return history


def answers(policy, t=900):
    contexts = rows(t, 12)
    posterior = policy.posterior
    prediction = posterior.predict(contexts)
    return (
        posterior.kernel, posterior.regularization, policy.round_index, policy.fingerprint,
        prediction.mean.tolist(), prediction.width.tolist(), policy.probabilities(contexts).tolist(),
    )  # fmt: skip


def are_same(first, second):
    """Equal up to rounding: a factor may have been computed again."""
    return first[:4] == second[:4] and all(
        np.allclose(a, b, atol=1e-9) for a, b in zip(first[4:], second[4:], strict=True)
    )


@pytest.mark.parametrize("name", POLICIES)
class TestEveryPolicy:
    def test_it_is_off_by_default(self, name):
        policy = POLICIES[name]()
        played(policy)
        inner = getattr(policy, "policy", policy)
        inner = getattr(inner, "policy", inner)
        assert inner.get_params()["refit"] is None
        assert policy.posterior.kernel is inner.kernel
        assert policy.posterior.regularization == inner.regularization

    def test_parameters_change_and_those_given_stay(self, name):
        policy = POLICIES[name](refit=10)
        given, before = policy.kernel, policy.fingerprint
        played(policy)
        assert policy.kernel is given
        assert policy.fingerprint == before
        assert (policy.posterior.kernel, policy.posterior.regularization) != (given, policy.regularization)
        assert policy.posterior.n_observations > 20

    def test_the_model_is_that_of_a_policy_with_these_parameters(self, name):
        policy = POLICIES[name](refit=10)
        played(policy)
        fresh = kb.posterior.ExactPosterior(policy.posterior.kernel, regularization=policy.posterior.regularization)
        points, _, counts, sums = policy.posterior.support()
        fresh.observe(points, sums / counts, times=counts.astype(int))
        ours, theirs = policy.posterior.predict(rows(70)), fresh.predict(rows(70))
        assert_allclose(ours.mean, theirs.mean, atol=1e-7)
        assert_allclose(ours.width, theirs.width, atol=1e-6)

    def test_a_saved_policy_and_a_copy_continue_alike(self, name, tmp_path):
        policy = POLICIES[name](refit=10)
        played(policy, range(25))
        policy.save(tmp_path / "policy.kb")
        others = [kb.load(tmp_path / "policy.kb"), policy.copy(), copy.deepcopy(policy)]
        expected = None
        for one in (policy, *others):
            one.reseed(7)
            assert one.posterior.kernel == policy.posterior.kernel
        decisions = played(policy, range(25, 45))
        for one in others:
            again = played(one, range(25, 45))
            assert [chosen.action for chosen, _ in again] == [chosen.action for chosen, _ in decisions]
            expected = policy.posterior
            assert one.posterior.kernel == expected.kernel
            assert one.posterior.regularization == expected.regularization
            assert one.describe() == policy.describe()

    def test_a_clone_begins_with_the_given_parameters(self, name):
        policy = POLICIES[name](refit=10)
        played(policy)
        clone = policy.clone()
        assert clone.posterior.kernel == policy.kernel
        assert clone.fingerprint == policy.fingerprint
        played(clone)
        assert clone.posterior.kernel == policy.posterior.kernel

    def test_repeated_events_give_the_same_parameters(self, name):
        policy, other, calls = POLICIES[name](refit=10), POLICIES[name](refit=10), []
        policy.subscribe(lambda events: calls.extend(events))
        played(policy, range(40))
        assert {event.kind for event in calls} == {"learn"}
        for event in calls:
            event.apply(other)
        assert other.posterior.kernel == policy.posterior.kernel
        assert other.posterior.regularization == policy.posterior.regularization


class TestSearch:
    def test_it_is_that_of_optimize_kernel(self):
        policy = kb.KernelUCB(WRONG, exploration=0.4, refit="auto")
        history = played(policy, range(20))
        points = np.array([decision.context for decision, _ in history])
        fit = optimize_kernel(WRONG, points, [value for _, value in history])
        assert fit.kernel == policy.posterior.kernel != WRONG
        assert fit.regularization == policy.posterior.regularization

    def test_it_happens_at_20_40_80_rewards(self):
        policy, kernels = kb.KernelUCB(WRONG, exploration=0.4, refit="auto"), []
        for t in range(85):
            played(policy, [t])
            if not kernels or policy.posterior.kernel is not kernels[-1][1]:
                kernels.append((t + 1, policy.posterior.kernel))
        assert {n for n, _ in kernels} <= {1, 20, 40, 80}
        assert kernels[1][0] == 20

    def test_many_rewards_at_once_are_as_one_by_one(self):
        one, many = (kb.KernelUCB(WRONG, exploration=0.4, refit=15) for _ in range(2))
        history = played(one.copy(), range(50))
        for decision, value in history:
            one.learn(decision, value)
        many.learn_many([decision for decision, _ in history], [value for _, value in history])
        assert many.posterior.kernel == one.posterior.kernel != WRONG
        assert many.choose(rows(60)).action == one.choose(rows(60)).action
        assert_allclose(many.choose(rows(60)).mean, one.choose(rows(60)).mean, atol=1e-9)

    @pytest.mark.parametrize("kernel", [WRONG, Linear() + 0.5], ids=repr)
    def test_play_is_choose_and_learn(self, kernel):
        played_at_once, other = (kb.KernelUCB(kernel, exploration=0.4, refit=15) for _ in range(2))
        rounds = [rows(t) for t in range(50)]
        plays = played_at_once.play(rounds, [[reward(row) for row in one] for one in rounds])
        history = played(other, range(50))
        assert plays.action.tolist() == [decision.action for decision, _ in history]
        assert played_at_once.posterior.kernel == other.posterior.kernel
        assert not played_at_once.has_compiled_loop

    def test_history_counts(self):
        policy = kb.KernelUCB(WRONG, exploration=0.4, refit="auto")
        contexts = np.concatenate([rows(t) for t in range(10)])
        policy.warm_start(contexts, [reward(row) for row in contexts])
        assert policy.posterior.kernel == optimize_kernel(WRONG, contexts, [reward(row) for row in contexts]).kernel

    def test_a_catalog_follows(self):
        catalog = kb.Catalog(np.random.default_rng(0).uniform(size=(60, 2)))
        policy = kb.KernelUCB(WRONG, exploration=4.0, refit=10)
        some = rows(0, 20)
        policy.warm_start(some, [reward(row) for row in some])
        for _ in range(25):
            decision = policy.choose(catalog)
            exhaustive = policy.posterior.predict(catalog.points(policy.kernel.kind))
            unit = policy._exploration_unit
            scores = exhaustive.mean + 4.0 * unit * exhaustive.width
            assert scores[decision.action] == pytest.approx(scores.max(), abs=1e-8)
            policy.learn(decision, reward(decision.context))
        assert policy.posterior.kernel != WRONG

    def test_pending_decisions_stay_pending_and_narrow_the_new_widths(self):
        policy = kb.KernelUCB(WRONG, exploration=0.4, refit=10)
        pending = policy.choose(rows(100))
        policy.expect(pending)
        played(policy, range(30))
        other = policy.copy()
        other.withdraw(pending)
        assert policy.posterior.kernel != WRONG
        assert list(policy.pending) == [pending.id]
        contexts = np.array([pending.context])
        narrow, wide = policy.choose(contexts).width, other.choose(contexts).width
        expected = wide / np.sqrt(1.0 + wide**2)
        assert narrow == pytest.approx(expected, rel=1e-9)
        policy.learn(pending, 0.5)
        assert not policy.pending

    def test_amended_and_removed_rewards_count_from_the_next_search_on(self):
        policy, fresh = (kb.KernelUCB(WRONG, exploration=0.4, refit=30) for _ in range(2))
        history = played(policy, range(29))
        policy.amend(history[3][0], now=0.9)
        policy.unlearn(history[5][0])
        changed = [value if place != 3 else 0.9 for place, (_, value) in enumerate(history)]
        for place, (decision, _) in enumerate(history):
            if place != 5:
                fresh.learn(decision, changed[place])
        for one in (policy, fresh):
            for t in (200, 201):
                decision = one.choose(rows(t))
                one.learn(decision, reward(decision.context))
        assert policy.posterior.kernel == fresh.posterior.kernel != WRONG

    def test_labels_share_their_length_scale(self):
        policy = kb.KernelUCB(PairProduct(WRONG, Delta()), exploration=0.4, refit="auto")
        for t in range(45):
            context = rows(t, 1)[0]
            decision = policy.choose(kb.Pairs(context, ["a", "b", "c"]))
            policy.learn(decision, reward(context) if decision.item == "a" or decision.action == 0 else 0.4)
        assert policy.posterior.kernel.context.length_scale < 1.0

    def test_strings_learn_the_regularization(self):
        policy = kb.KernelUCB(Spectrum(n=1), regularization=10.0, exploration=0.3, refit=10)
        rng = np.random.default_rng(0)
        for _ in range(40):
            decision = policy.choose(["".join(rng.choice(list("ab"), size=5)) for _ in range(4)])
            policy.learn(decision, decision.context.count("a") / 5)
        assert policy.posterior.regularization < 1.0


class TestExploration:
    @pytest.mark.parametrize(("regularization", "unit"), [(1e-3, 1.0), (10.0, None)])
    def test_a_number_never_gives_an_unknown_action_a_larger_bonus(self, regularization, unit):
        policy = kb.KernelUCB(WRONG, regularization=regularization, exploration=0.4, refit="auto")
        rng = np.random.default_rng(0)
        for t in range(40):
            decision = policy.choose(rows(t))
            policy.learn(decision, reward(decision.context) + 0.1 * rng.normal())
        learned = policy.posterior.regularization
        far = np.full((1, 2), 1e4)
        decision = policy.choose(far)
        expected = min(1.0, np.sqrt(learned / regularization)) * 0.4 / np.sqrt(learned)
        assert decision.score - decision.mean == pytest.approx(expected, rel=1e-9)
        assert expected <= 0.4 / np.sqrt(regularization) * (1.0 + 1e-12)
        assert (learned > regularization) is (unit == 1.0)

    def test_a_schedule_with_a_proof_warns_that_it_has_none(self):
        schedule = Mixture(noise_scale=0.1, norm_bound=1.0, failure_probability=0.1)
        policy = kb.KernelUCB(Gaussian(length_scale=0.3), exploration=schedule, refit="auto")
        with pytest.warns(GuaranteeVoid, match="kernel parameters that are chosen by the rewards"):
            policy.choose(rows(0))
        assert policy.unproved
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fixed = policy.clone(refit=None)
            fixed.choose(rows(0))
        assert not fixed.unproved

    def test_coverage_states_no_claim(self):
        kernel = Gaussian(length_scale=0.3)
        world = kb.environments.SyntheticRKHS(kernel, n_actions=3, n_features=1, norm=1.0, noise_scale=0.1)
        schedule = Mixture(noise_scale=0.1, norm_bound=1.0, failure_probability=0.1)
        claims = []
        for refit in (None, "auto"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GuaranteeVoid)
                found = coverage(
                    world,
                    lambda seed, refit=refit: kb.KernelUCB(kernel, exploration=schedule, refit=refit),
                    horizon=3,
                    repeats=2,
                )
            claims.append(found.failure_probability)
        assert claims == [0.1, None]


class TestManualRefit:
    def test_other_given_parameters_start_over(self):
        policy = kb.KernelUCB(WRONG, exploration=0.4, refit=10)
        played(policy, range(25))
        policy.refit(kernel=Gaussian(length_scale=0.5))
        assert policy.posterior.kernel == policy.kernel == Gaussian(length_scale=0.5)
        assert policy.posterior.n_observations == 25
        played(policy, range(25, 31))
        assert policy.posterior.kernel != policy.kernel

    def test_other_exploration_keeps_what_was_found(self):
        policy = kb.KernelUCB(WRONG, exploration=0.4, refit=10)
        played(policy, range(25))
        found = policy.posterior.kernel
        policy.refit(exploration=0.1, ties="random")
        assert policy.posterior.kernel == found != WRONG

    def test_it_can_begin_and_end_later(self):
        policy = kb.KernelUCB(WRONG, exploration=0.4)
        played(policy, range(25))
        policy.refit(refit="auto")
        assert policy.posterior.kernel == WRONG
        played(policy, range(25, 41))
        assert policy.posterior.kernel != WRONG
        policy.refit(refit=None)
        assert policy.posterior.kernel == WRONG
        assert policy.posterior.n_observations == 41


class TestSafety:
    def test_an_interrupted_search_changes_all_or_nothing(self, monkeypatch):
        # A short search: its own steps change nothing, and there are thousands of them.
        monkeypatch.setattr(ParameterSearch, "better_than", lambda search, current: current - 0.5)

        def made():
            policy = kb.KernelUCB(WRONG, exploration=0.4, refit=6)
            played(policy, range(5))
            made.decision = policy.choose(rows(5))
            return policy

        def learn(policy):
            policy.learn(kb.Decision(**{**vars_of(made.decision), "policy": policy.fingerprint}), 0.7)

        def vars_of(decision):
            names = ("action", "context", "item", "n_actions", "id")
            return {name: getattr(decision, name) for name in names}

        before = answers(made())
        done = made()
        learn(done)
        after = answers(done)
        assert before[0] == WRONG != after[0]
        n_interrupts = 0
        places = [("policies", 3), ("posterior", 29), ("", 83)]
        for policy in (
            one for within, step in places for one in interrupted_everywhere(made, learn, step=step, within=within)
        ):
            n_interrupts += 1
            assert any(are_same(answers(policy), one) for one in (before, after))
        assert n_interrupts > 30

    def test_a_listener_that_rejects_undoes_the_search(self):
        policy = kb.Mixed(kb.KernelUCB(WRONG, exploration=0.4, refit=10), epsilon=0.2, seed=1)
        played(policy, range(9))
        decision, before = policy.choose(rows(9)), answers(policy)

        def refuse(_events):
            raise RuntimeError("full")

        unsubscribe = policy.subscribe(refuse)
        with pytest.raises(RuntimeError, match="full"):
            policy.learn(decision, reward(decision.context))
        assert are_same(answers(policy), before)
        unsubscribe()
        policy.learn(decision, reward(decision.context))
        assert policy.posterior.kernel != before[0]

    def test_threads_learn_and_choose_at_the_same_time(self):
        policy, errors = kb.KernelUCB(WRONG, exploration=0.4, refit=10), []

        def work(number):
            try:
                played(policy, range(100 * number, 100 * number + 20))
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert policy.posterior.n_observations == 80
        points, _, counts, sums = policy.posterior.support()
        fit = optimize_kernel(WRONG, points, sums / counts, times=counts.astype(int))
        assert policy.posterior.kernel.length_scale == pytest.approx(fit.kernel.length_scale, rel=0.5)

    def test_parameters_that_rounding_swallows_are_not_used(self, monkeypatch, caplog):
        policy = kb.KernelUCB(WRONG, exploration=0.4, refit=10)
        played(policy, range(9))
        decision = policy.choose(rows(9))
        real = type(policy.posterior).restore

        def reject(posterior, state):
            real(posterior, state)
            raise NumericalError("too small")

        monkeypatch.setattr(type(policy.posterior), "restore", reject)
        with caplog.at_level("WARNING"):
            policy.learn(decision, reward(decision.context))
        assert policy.posterior.kernel == WRONG
        assert policy.posterior.n_observations == 10
        assert "not used" in caplog.text
        monkeypatch.undo()
        assert policy.choose(rows(10)).n_actions == 6

    def test_a_damaged_file_is_noticed(self):
        policy = kb.KernelUCB(WRONG, exploration=0.4, refit=10)
        played(policy, range(12))
        state = policy._state()
        for damage in ({"found": np.zeros(5), "due": 20}, {"found": np.full(2, 1e9), "due": 20}, {"due": 20},
                       {"found": np.zeros(2), "due": -1}):  # fmt: skip
            with pytest.raises(DamagedFile):
                policy.clone()._restore({**state, "refit": damage})


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"budget": 100}, r"beyond a budget.*got budget=100.*Leave `refit` out"),
            ({"accuracy": 0.1}, r"beyond a budget.*accuracy=0\.1"),
            ({"posterior": "primal"}, r"'auto' and 'exact', got 'primal'"),
            ({"posterior": "logistic"}, r"'auto' and 'exact', got 'logistic'"),
            ({"posterior": posterior_factory("windowed", length=9)}, r"'auto' and 'exact', got .*windowed"),
            ({"kernel": lambda x, z: x @ z.T}, r"formulas of this library.*fit_kernel"),
            ({"kernel": np.eye(3)}, r"formulas of this library"),
        ],
    )
    def test_models_that_cannot_learn_them(self, arguments, message):
        given = {"kernel": WRONG, **arguments}
        kb.KernelUCB(**given)
        with pytest.raises(NotSupported, match=message):
            kb.KernelUCB(**given, refit="auto")

    @pytest.mark.parametrize("value", ["always", 0, 1.5, True])
    def test_rules_that_are_none(self, value):
        with pytest.raises(InvalidParameter):
            kb.KernelUCB(WRONG, refit=value)

    def test_the_method_of_this_name_is_still_there(self):
        policy = kb.KernelUCB(WRONG, refit="auto")
        assert callable(policy.refit)
        assert policy.get_params()["refit"] == Refit()
        assert policy.describe()["refit"] == Refit().describe()
        assert "refit=Refit(" in repr(policy)
        assert policy.set_params(refit=30).get_params()["refit"] == Refit(every=30)
