from types import SimpleNamespace

import numpy as np
import pytest

from kernelbandits.environments import Log, SyntheticRKHS
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import DirectMethod, DoublyRobust, SelfNormalizedIPS, simulate
from kernelbandits.experiments import Grid, PolicySpec, tune
from kernelbandits.kernels import Spectrum
from kernelbandits.policies import KernelUCB, UniformRandom
from small_studies import KERNEL, Unknowing, bytes_of

WORLD = SyntheticRKHS(KERNEL, n_actions=6, n_features=1)
CANDIDATES = PolicySpec(KernelUCB, KERNEL, exploration=Grid(40.0, 0.1), regularization=0.2)


def test_settings_are_ranked_by_mean_regret():
    ranking = tune(CANDIDATES, on=WORLD, horizon=40, seeds=[5, 6, 7])

    regrets = [
        simulate(WORLD, KernelUCB(KERNEL, exploration=0.1, regularization=0.2), horizon=40, seed=seed).regret[-1]
        for seed in (5, 6, 7)
    ]
    best = ranking.results[0]
    assert (ranking.measure, best.rank, best.parameters) == ("regret", 1, {"exploration": 0.1})
    assert best.final.mean == pytest.approx(np.mean(regrets))
    assert best.final.low < best.final.mean < best.final.high
    assert ranking.results[1].final.mean > best.final.mean
    assert ranking.to_dict()["results"][1]["rank"] == 2


def test_best_is_a_fresh_policy_with_the_best_setting():
    ranking = tune(CANDIDATES, on=WORLD, horizon=30, seeds=2)

    policy = ranking.best(seed=3)

    assert policy.exploration.value == 0.1
    assert policy.round_index == 1


def test_a_world_without_expectations_ranks_by_reward():
    ranking = tune({"a": CANDIDATES, "r": PolicySpec(UniformRandom)}, on=Unknowing(), horizon=7, seeds=2)

    scores = [setting.final.mean for setting in ranking.results]
    assert ranking.measure == "total_reward"
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3


def test_results_are_kept_where_requested(tmp_path):
    tune(CANDIDATES, on=WORLD, horizon=10, seeds=2, into=tmp_path)

    assert len(bytes_of(tmp_path)) == 4


class OnMatches:
    """Mean reward of the rounds in which the policy agrees with the log."""

    def estimate(self, log, policy):
        rewards = [
            log.rewards[t]
            for t in range(len(log))
            if policy.choose(log.rounds[t], ids=log.ids_of(t)).action == log.actions[t]
        ]
        value = float(np.mean(rewards))
        return SimpleNamespace(value=value, low=value - 0.1, high=value + 0.1)


def logged(n_rounds=60):
    rng = np.random.default_rng(1)
    rounds = [["aaaa", "bbbb", "cccc"]] * n_rounds
    actions = rng.integers(3, size=n_rounds)
    rewards = np.where(actions == 1, 1.0, -0.5) + 0.01 * rng.standard_normal(n_rounds)
    return Log(rounds, actions, np.full(n_rounds, 1 / 3), rewards)


def test_on_a_log_the_first_part_is_learned_and_the_rest_judges():
    # A policy that starts from zero and never learns would take row 0; one that has learned takes row 1.
    candidates = PolicySpec(KernelUCB, Spectrum(n=2), exploration=0.0, regularization=Grid(1e9, 0.1))
    log = logged()
    sizes = []

    class Noting(OnMatches):
        def estimate(self, log, policy):
            sizes.append(len(log))
            return super().estimate(log, policy)

    ranking = tune(candidates, on=log, estimator=Noting(), learn_share=0.25)

    assert sizes == [45, 45]
    assert ranking.measure == "value"
    assert ranking.results[0].final.mean == pytest.approx(1.0, abs=0.05)
    assert ranking.results[0].final.high == ranking.results[0].final.mean + 0.1
    assert ranking.best().posterior.n_observations == 0
    assert ranking.best(log=log).posterior.n_observations == 60
    with pytest.raises(InvalidParameter, match="The log must be a Log"):
        ranking.best(log=60)


def test_settings_of_which_nothing_is_known_come_last():
    values = iter([np.nan, 0.2, np.nan, 0.7])

    class Doubtful:
        def estimate(self, log, policy):
            value = next(values)
            return SimpleNamespace(value=value, low=value, high=value)

    candidates = PolicySpec(KernelUCB, Spectrum(n=2), exploration=Grid(1, 2, 3, 4))
    ranking = tune(candidates, on=logged(), estimator=Doubtful())

    assert [setting.parameters["exploration"] for setting in ranking.results] == [4, 2, 1, 3]


@pytest.mark.parametrize(
    "estimator", [SelfNormalizedIPS(), DoublyRobust(DirectMethod(Spectrum(n=2)))], ids=lambda one: type(one).__name__
)
def test_estimators_of_the_library_rank_on_a_log(estimator):
    candidates = PolicySpec(KernelUCB, Spectrum(n=2), exploration=Grid(1000.0, 0.0), regularization=0.1)
    log = logged(90)
    learned = KernelUCB(Spectrum(n=2), exploration=0.0, regularization=0.1)
    for t, action in enumerate(log.actions[:45].tolist()):
        learned.warm_start([log.rounds[t][action]], [log.rewards[t]])

    ranking = tune(candidates, on=log, estimator=estimator)

    (ours,) = (setting for setting in ranking.results if setting.parameters == {"exploration": 0.0})
    by_hand = estimator.estimate(log[45:], learned)
    np.testing.assert_allclose(
        [ours.final.mean, ours.final.low, ours.final.high], [by_hand.value, by_hand.low, by_hand.high]
    )
    scores = [setting.final.mean for setting in ranking.results]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": WORLD}, "needs the number of rounds"),
        ({"on": WORLD, "horizon": 5, "by": "guess"}, "by 'regret' or by 'reward'"),
        ({"on": WORLD, "horizon": 5, "estimator": OnMatches()}, "An estimator evaluates policies on a log"),
        ({"on": Unknowing(), "horizon": 5, "seeds": 1, "by": "regret"}, "there is no regret"),
        ({"on": logged()}, "needs an estimator"),
        ({"on": logged(), "estimator": OnMatches(), "learn_share": 1.0}, "strictly between 0 and 1"),
        ({"on": logged(1), "estimator": OnMatches()}, "is split into a part"),
        ({"on": logged(), "estimator": OnMatches(), "seeds": []}, "at least one seed"),
        ({"on": logged(), "estimator": OnMatches(), "by": "regret"}, "ranked by their value"),
        ({"on": logged(), "estimator": OnMatches(), "horizon": 5}, "ranked by their value.*Leave out.*`horizon`"),
    ],
)
def test_what_cannot_be_tuned_is_rejected(options, message):
    with pytest.raises(InvalidParameter, match=message):
        tune(CANDIDATES, **options)


def test_a_policy_is_no_specification():
    with pytest.raises(InvalidParameter, match=r"got a policy, KernelUCB\(.*PolicySpec\(KernelUCB, …"):
        tune(KernelUCB(Spectrum(n=2)), on=WORLD, horizon=5)


def test_a_ranking_is_shown_briefly():
    ranking = tune(
        PolicySpec(KernelUCB, Spectrum(n=2), exploration=Grid(0.1, 1.0)), on=logged(), estimator=OnMatches()
    )  # fmt: skip

    best = ranking.results[0]
    assert repr(ranking).startswith(f"Ranking(2 settings by value, best {best.policy!r}: {best.final.mean:.4g} (")
    assert len(repr(ranking)) < 200
    assert ranking._repr_html_().count("<tr>") == 3
