"""Estimators on logs of slates, compared with the enumeration of all slates of a round."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.evaluation import (
    IPS,
    DirectMethod,
    DoublyRobust,
    Replay,
    SelfNormalizedIPS,
    Switch,
    collect_log,
    compare_on_log,
    mean_reward,
    true_value,
)
from kernelbandits.kernels import Delta, Gaussian, Linear
from slates import every_slate, given_above, log_of_every_slate

CONTEXTS = np.random.default_rng(3).uniform(size=(4, 2))
K = 3
BEHAVIORS = ("standard", "cascade", "independent")


def upper(rewards, exploration=0.7):
    policy = kb.KernelUCB(Gaussian(length_scale=0.5), regularization=0.3, exploration=exploration)
    policy.warm_start(CONTEXTS, rewards, times=2)
    return policy


LOGGING = kb.Mixed(kb.Softmax(upper([0.2, 0.8, 0.4, 0.6]), temperature=0.3, seed=0), epsilon=0.3, seed=0)
TARGETS = {
    "Softmax": kb.Softmax(upper([0.9, 0.1, 0.7, 0.4]), temperature=0.2, seed=0),
    "Mixed": kb.Mixed(upper([0.9, 0.1, 0.7, 0.4]), epsilon=0.4, seed=0),
    "KernelUCB": upper([0.9, 0.1, 0.7, 0.4]),
    "KernelThompson": kb.KernelThompson(Gaussian(length_scale=0.5), regularization=0.3, seed=0),
    "UniformRandom": kb.UniformRandom(),
}
NOISE = np.random.default_rng(4).normal(size=(4, 4, 4, 4))


def reward_of(behavior):
    """Expected reward of a place, which depends on what the behavior says, in no particular way."""

    def reward(slate, place):
        seen = {"standard": slate, "cascade": slate[: place + 1], "independent": (slate[place],)}[behavior]
        return float(NOISE[place][tuple((*seen, 0, 0, 0)[:3])] + 0.3 * sum(seen))

    return reward


class AnyModel:
    """Predictions that have nothing to do with the rewards, different at each place."""

    def __init__(self):
        self.n_fitted = 0

    def fit(self, log):
        assert log.k is None
        self.n_fitted += 1
        return AnyFit(np.random.default_rng(self.n_fitted).normal(size=4))


class AnyFit:
    def __init__(self, values):
        self.values = values

    def predict(self, rounds):
        return [self.values for _ in rounds]


def expected_value(target, log):
    """Σ over slates of the policy's probability times the sum of rewards."""
    shares = given_above(target, CONTEXTS, log.actions).prod(axis=1)
    assert shares.sum() == pytest.approx(1.0)
    return float(shares @ log.rewards.sum(axis=1))


def expectation(estimator, log, shares, target):
    """The mean of the estimator over logs of one round: its terms, weighted by the slates' probabilities."""
    return float(shares @ estimator._judge(log, target).terms)


class TestUnbiased:
    @pytest.mark.parametrize("name", TARGETS)
    @pytest.mark.parametrize("behavior", BEHAVIORS)
    @pytest.mark.parametrize("has_model", [False, True])
    def test_the_value_is_right_on_average_over_all_slates(self, name, behavior, has_model):
        log, shares = log_of_every_slate(CONTEXTS, LOGGING, K, reward_of(behavior))
        target = TARGETS[name]
        estimator = DoublyRobust(AnyModel(), folds=1, behavior=behavior) if has_model else IPS(behavior=behavior)

        assert expectation(estimator, log, shares, target) == pytest.approx(expected_value(target, log), abs=1e-9)

    @pytest.mark.parametrize(
        ("assumed", "real"), [("cascade", "standard"), ("independent", "cascade"), ("independent", "standard")]
    )
    @pytest.mark.parametrize("has_model", [False, True])
    def test_a_stronger_assumption_than_the_truth_is_biased(self, assumed, real, has_model):
        """Negative control."""
        log, shares = log_of_every_slate(CONTEXTS, LOGGING, K, reward_of(real))
        target = TARGETS["Softmax"]
        estimator = DoublyRobust(AnyModel(), folds=1, behavior=assumed) if has_model else IPS(behavior=assumed)

        assert abs(expectation(estimator, log, shares, target) - expected_value(target, log)) > 0.01

    def test_a_model_alone_is_biased(self):
        """Negative control: without the correction nothing repairs these models."""
        log, shares = log_of_every_slate(CONTEXTS, LOGGING, K, reward_of("independent"))
        target, corrected = TARGETS["Softmax"], Switch(AnyModel(), threshold=1e9, folds=1)

        assert expectation(corrected, log, shares, target) == pytest.approx(expected_value(target, log))
        alone = Switch(AnyModel(), threshold=0.0, folds=1)
        assert abs(expectation(alone, log, shares, target) - expected_value(target, log)) > 0.1

    def test_weaker_assumptions_have_larger_variances(self):
        log, shares = log_of_every_slate(CONTEXTS, LOGGING, K, reward_of("independent"))
        target = TARGETS["UniformRandom"]

        variances = []
        for behavior in BEHAVIORS:
            terms = IPS(behavior=behavior)._judge(log, target).terms
            variances.append(float(shares @ (terms - shares @ terms) ** 2))

        assert variances[0] > variances[1] > variances[2]


class TestDefinitions:
    def test_weights_are_products_of_ratios(self):
        log, _ = log_of_every_slate(CONTEXTS, LOGGING, K, reward_of("cascade"))
        target = TARGETS["Softmax"]
        slates = every_slate(4, K)
        theirs = given_above(target, CONTEXTS, slates)
        ours = given_above(LOGGING, CONTEXTS, slates)
        places = np.empty(slates.shape)
        for t, slate in enumerate(slates):
            for place, action in enumerate(slate):
                has_it = slates[:, place] == action
                places[t, place] = theirs.prod(axis=1)[has_it].sum() / ours.prod(axis=1)[has_it].sum()
        expected = {
            "standard": np.repeat((theirs / ours).prod(axis=1)[:, None], K, axis=1),
            "cascade": np.array([[(row[: place + 1]).prod() for place in range(K)] for row in theirs / ours]),
            "independent": places,
        }

        for behavior, weights in expected.items():
            terms = (weights * log.rewards).sum(axis=1)
            found = IPS(behavior=behavior).estimate(log, target)
            assert found.value == pytest.approx(terms.mean())
            assert found.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(len(terms)))
            assert found.effective_sample_size == pytest.approx(min(own.sum() ** 2 / (own @ own) for own in weights.T))
            clipped = np.minimum(weights, 0.8)
            assert IPS(clip=0.8, behavior=behavior).estimate(log, target).value == pytest.approx(
                (clipped * log.rewards).sum(axis=1).mean()
            )
            own = [row @ earned / row.sum() for row, earned in zip(weights.T, log.rewards.T, strict=True)]
            deviations = sum(
                row * (earned - value) / row.sum()
                for row, earned, value in zip(weights.T, log.rewards.T, own, strict=True)
            )
            normalized = SelfNormalizedIPS(behavior=behavior).estimate(log, target)
            assert normalized.value == pytest.approx(sum(own))
            assert normalized.standard_error == pytest.approx(np.sqrt(deviations @ deviations))

    def test_the_cascade_doubly_robust_value_is_that_of_the_paper(self):
        """Kiyohara et al. (2022), equation by equation: Q̂ is computed backwards by enumeration."""
        log, _ = log_of_every_slate(CONTEXTS, LOGGING, K, reward_of("cascade"))
        target = TARGETS["Softmax"]
        models = [np.random.default_rng(place + 1).normal(size=4) for place in range(K)]

        def given(above, action):
            return float(target.slate_probabilities(CONTEXTS, [*above, action])[-1])

        def state_value(above):
            left = [action for action in range(4) if action not in above]
            return sum(given(above, action) * action_value((*above, action)) for action in left)

        def action_value(slate):
            now = float(models[len(slate) - 1][slate[-1]])
            return now + (state_value(slate) if len(slate) < K else 0.0)

        expected = []
        for t, slate in enumerate(log.actions.tolist()):
            weight, term = 1.0, 0.0
            for place in range(K):
                term += weight * state_value(tuple(slate[:place]))
                weight *= given(slate[:place], slate[place]) / log.propensities[t, place]
                term += weight * (log.rewards[t, place] - action_value(tuple(slate[: place + 1])))
            expected.append(term)

        assert_allclose(DoublyRobust(AnyModel(), folds=1)._judge(log, target).terms, expected, rtol=1e-9)

    def test_the_direct_method_adds_the_models_of_the_places(self):
        rng, target, contexts = np.random.default_rng(5), TARGETS["Softmax"], CONTEXTS
        slates = every_slate(4, K)[rng.integers(24, size=60)]
        log = Log([contexts] * 60, slates, np.full((60, K), 0.3), rng.normal(size=(60, K)))
        model = DirectMethod(Gaussian(length_scale=0.4), 0.5, noise_variance=0.7)

        found = model.estimate(log, target)

        places = target.place_probabilities(contexts, K)
        value = variance = 0.0
        for place in range(K):
            fitted = model.fit(log.at_place(place))
            value += places[place] @ fitted.predict([contexts])[0]
            variance += 0.7 * places[place] @ fitted.posterior.covariance(contexts, contexts) @ places[place]
        assert found.value == pytest.approx(value)
        assert found.standard_error == pytest.approx(np.sqrt(variance))

    @pytest.mark.parametrize("behavior", BEHAVIORS)
    def test_slates_of_one_action_are_single_actions(self, behavior):
        rng = np.random.default_rng(6)
        rounds = [rng.uniform(size=(rng.integers(2, 6), 2)) for _ in range(80)]
        actions = np.array([rng.integers(len(contexts)) for contexts in rounds])
        propensities, rewards = rng.uniform(0.2, 0.9, size=80), rng.normal(size=80)
        single = Log(rounds, actions, propensities, rewards)
        slates = Log(
            rounds,
            actions[:, None],
            propensities[:, None],
            rewards[:, None],
            place_propensities=propensities[:, None],
        )
        target, model = TARGETS["Softmax"], DirectMethod(Linear() + 1.0, 0.5)

        for estimator in (
            IPS(behavior=behavior),
            SelfNormalizedIPS(2.0, behavior=behavior),
            model,
            DoublyRobust(model, behavior=behavior),
            Switch(model, threshold=1.0, behavior=behavior),
        ):
            for found, expected in (
                (estimator.estimate(slates, target), estimator.estimate(single, target)),
                (estimator.lift(slates, target), estimator.lift(single, target)),
            ):
                assert found.warnings == expected.warnings
                assert (found.n_rounds, found.n_matched) == (80, expected.n_matched)
                assert_allclose(
                    [found.value, found.standard_error, found.low, found.effective_sample_size],
                    [expected.value, expected.standard_error, expected.low, expected.effective_sample_size],
                )

    def test_the_logging_policy_earns_the_sum_of_the_places(self):
        log = Log([["a", "b"]] * 2, [[0, 1], [1, 0]], np.full((2, 2), 0.5), [[1.0, 2.0], [0.0, 1.0]])

        assert (mean_reward(log).value, mean_reward(log).standard_error) == (2.0, 1.0)

    def test_items_of_catalogs_and_ids_are_those_of_their_round(self):
        rng = np.random.default_rng(7)
        items = rng.uniform(size=(7, 2))
        catalog = kb.Catalog(items)
        views = [catalog.only([0, 2, 5, 6]) if t % 2 else catalog for t in range(40)]
        rows = [np.array([0, 2, 5, 6]) if t % 2 else np.arange(7) for t in range(40)]
        actions = np.array([rng.permutation(len(own))[:2] for own in rows])
        columns = (actions, np.full((40, 2), 0.25), rng.normal(size=(40, 2)))
        at_place = np.full((40, 2), 0.2)
        of_views = Log(views, *columns, place_propensities=at_place)
        of_rows = Log([items[own] for own in rows], *columns, place_propensities=at_place)
        target, model = TARGETS["Softmax"], DirectMethod(Gaussian(length_scale=0.4), 0.5)

        for behavior in BEHAVIORS:
            for estimator in (IPS(behavior=behavior), DoublyRobust(model, behavior=behavior)):
                assert estimator.estimate(of_views, target).value == pytest.approx(
                    estimator.estimate(of_rows, target).value
                )


class TestCollected:
    WORLD = kb.environments.Clustered(n_actions=5, values=(0.2, 0.6))

    def test_slates_are_logged_with_their_propensities(self):
        policy = kb.Mixed(kb.KernelUCB(Delta(), exploration=0.3), epsilon=0.3, seed=2)

        log = collect_log(kb.environments.FixedCatalog(list("abcde"), [0.1, 0.2, 0.3, 0.4, 0.5]), policy,
                          horizon=50, seed=0, k=3, place_propensities=True)  # fmt: skip

        again = kb.Mixed(kb.KernelUCB(Delta(), exploration=0.3), epsilon=0.3, seed=2)
        for t in range(50):
            contexts, ids = log.rounds[t], log.ids_of(t)
            assert_allclose(again.slate_probabilities(contexts, log.actions[t], ids=ids), log.propensities[t])
            places = again.place_probabilities(contexts, 3, ids=ids)
            assert_allclose(places[np.arange(3), log.actions[t]], log.place_propensities[t])
            slate = again.choose(contexts, k=3, ids=ids)
            assert slate.actions.tolist() == log.actions[t].tolist()
            again.learn_many(list(slate), log.rewards[t])
        assert policy.round_index == 151

    def test_a_user_who_reads_from_the_top_stops_at_the_first_reward(self):
        policy = kb.UniformRandom(seed=0)

        log = collect_log(self.WORLD, policy, horizon=200, seed=0, k=3, cascade=True)

        assert set(log.rewards.sum(axis=1)) == {0.0, 1.0}
        n_seen = np.where(log.rewards.any(axis=1), log.rewards.argmax(axis=1) + 1, 3)
        assert policy.round_index == 1 + n_seen.sum()
        plain = collect_log(self.WORLD, kb.UniformRandom(seed=0), horizon=200, seed=0, k=3)
        assert plain.rewards.sum(axis=1).max() == 3.0

    def test_rounds_without_known_rewards_are_left_out_and_deterministic_policies_warned_of(self):
        with pytest.warns(kb.errors.KernelBanditWarning, match="KernelUCB is deterministic"):
            log = collect_log(self.WORLD, kb.KernelUCB(Gaussian(length_scale=0.5)), horizon=5, seed=0, k=2)
        assert log.actions.shape == (5, 2)
        single = Log([["a", "b"]] * 4, [0, 1, 0, 1], [0.5] * 4, [1.0] * 4)
        world = kb.environments.Logged(single)
        assert collect_log(world, kb.UniformRandom(seed=0), horizon=9, k=2).actions.shape == (0, 2)

    @pytest.mark.parametrize("options", [{"cascade": True}, {"place_propensities": True}])
    def test_slates_need_their_length(self, options):
        with pytest.raises(InvalidParameter, match="k=…"):
            collect_log(self.WORLD, kb.UniformRandom(), horizon=5, **options)

    def test_the_true_value_of_slates_is_that_of_their_enumeration(self):
        world = kb.environments.FixedCatalog(CONTEXTS, [0.1, 0.2, 0.3, 0.5])
        target = TARGETS["Softmax"]
        slates = every_slate(4, 2)
        shares = given_above(target, CONTEXTS, slates).prod(axis=1)

        found = true_value(world, target, horizon=3, seed=0, k=2)

        assert found.value == pytest.approx(float(shares @ np.array([0.1, 0.2, 0.3, 0.5])[slates].sum(axis=1)))


class TestRefusals:
    LOG = Log([CONTEXTS] * 3, [[0, 1], [1, 2], [3, 0]], np.full((3, 2), 0.3), np.ones((3, 2)))

    def test_independent_places_need_the_probabilities_of_the_places(self):
        with pytest.raises(InvalidParameter, match=r"no place_propensities.*behavior='cascade' does not need them"):
            IPS(behavior="independent").estimate(self.LOG, TARGETS["Softmax"])

    @pytest.mark.parametrize("make", [IPS, SelfNormalizedIPS, lambda **o: DoublyRobust(AnyModel(), **o)])
    def test_a_behavior_is_one_of_three(self, make):
        with pytest.raises(InvalidParameter, match="'standard', 'cascade' or 'independent', got 'casade'"):
            make(behavior="casade")

    def test_what_takes_single_actions_says_so(self):
        for refused in (
            lambda: Replay().estimate(self.LOG, TARGETS["KernelUCB"]),
            lambda: compare_on_log(
                self.LOG, kb.UniformRandom(), kb.UniformRandom(), smallest_propensity=0.1, reward_range=(0, 1)
            ),
            lambda: DirectMethod(Gaussian(length_scale=0.5)).fit(self.LOG),
            lambda: kb.adapters.to_obp(self.LOG),
        ):
            with pytest.raises(NotSupported, match=r"slates of 2.*log\.at_place\(0\)"):
                refused()

    def test_a_policy_without_slates_cannot_be_judged_on_them(self):
        with pytest.raises(NotSupported, match="one action at a time"):
            IPS().estimate(self.LOG, kb.UCB1(reward_range=(0, 1)))
