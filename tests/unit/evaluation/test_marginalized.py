"""Marginalized importance weights, compared with the definition and with its limits."""

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.environments import Log
from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.evaluation import IPS, MarginalizedIPS, PropensityModel, SelfNormalizedIPS, collect_log, mean_reward
from kernelbandits.kernels import Constant, Delta, Gaussian, Linear, Matern, Precomputed, Rows


def softmax(values):
    powers = np.exp(values - values.max())
    return powers / powers.sum()


@pytest.fixture
def target():
    greedy = kb.KernelUCB(Linear(), exploration=0.0)
    greedy.posterior.observe(np.eye(2), [1.0, -1.0])
    return kb.Softmax(greedy, temperature=0.2)


def logged(seed=0, n_rounds=60, *, n_sets=60, n_actions=7):
    rng = np.random.default_rng(seed)
    sets = [rng.normal(size=(n_actions, 2)) for _ in range(n_sets)]
    rounds = [sets[t % n_sets] for t in range(n_rounds)]
    shares = [softmax(rng.normal(size=n_actions)) for _ in range(n_rounds)]
    actions = np.array([rng.choice(n_actions, p=own) for own in shares])
    propensities = np.array([own[action] for own, action in zip(shares, actions, strict=True)])
    return Log(rounds, actions, propensities, rng.normal(size=n_rounds) + 3.0, probabilities=shares)


def weight_by_definition(kernel, rows, of_target, of_log, action):
    n_actions, total = len(rows), 0.0
    near = [[kernel.gram(rows[[a]], rows[[e]])[0, 0] for e in range(n_actions)] for a in range(n_actions)]
    given = [[near[a][e] / sum(near[a]) for e in range(n_actions)] for a in range(n_actions)]
    for e in range(n_actions):
        pi = sum(of_target[b] * given[b][e] for b in range(n_actions))
        mu = sum(of_log[b] * given[b][e] for b in range(n_actions))
        total += given[action][e] * pi / mu
    return total


@pytest.mark.parametrize("n_sets", [1, 60])
@pytest.mark.parametrize(
    "kernel", [Gaussian(length_scale=0.6), 3.0 * Matern(smoothness=0.5, length_scale=0.2)], ids=repr
)
def test_the_value_is_that_of_the_definition(kernel, n_sets, target):
    log = logged(n_sets=n_sets)
    weights = np.array([
        weight_by_definition(kernel, log.rounds[t], target.probabilities(log.rounds[t]), log.probabilities[t], action)
        for t, action in enumerate(log.actions)
    ])  # fmt: skip

    plain, normalized, clipping = (
        MarginalizedIPS(kernel, **options).estimate(log, target)
        for options in ({}, {"normalized": True}, {"clip": 1.0})
    )

    terms = weights * log.rewards
    assert plain.value == pytest.approx(terms.mean())
    assert plain.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(60))
    assert normalized.value == pytest.approx(terms.sum() / weights.sum())
    assert clipping.value == pytest.approx((np.minimum(weights, 1.0) * log.rewards).mean())
    assert "kernel calls similar" in plain.warnings[0]


def test_similar_to_itself_only_is_ips(target):
    log = logged()

    exact = MarginalizedIPS(Delta(kind=Rows()))

    assert exact.estimate(log, target).value == pytest.approx(IPS().estimate(log, target).value)
    assert exact.lift(log, target).standard_error == pytest.approx(IPS().lift(log, target).standard_error)
    normalized = MarginalizedIPS(Delta(kind=Rows()), normalized=True).estimate(log, target)
    assert normalized.value == pytest.approx(SelfNormalizedIPS().estimate(log, target).value)


def test_all_equally_similar_is_the_mean_reward_of_the_log(target):
    log = logged()

    assert MarginalizedIPS(Constant(2.0)).estimate(log, target).value == pytest.approx(mean_reward(log).value)


GROUPS = np.array([0, 0, 1, 2, 2, 2, 1])


def every_action(of_log):
    """One round for each action, as if each were logged once."""
    n_actions = len(of_log)
    return Log(
        [list(range(n_actions))] * n_actions, np.arange(n_actions), of_log, np.zeros(n_actions),
        probabilities=[of_log] * n_actions,
    )  # fmt: skip


def weights_of(kernel, of_log, of_target):
    """Weights of all actions of one set, from the values of indicator rewards."""
    log = every_action(of_log)
    policy = FixedShares(of_target)
    found = []
    for action in range(len(of_log)):
        rewards = np.zeros(len(of_log))
        rewards[action] = len(of_log)
        one = Log(log.rounds, log.actions, log.propensities, rewards, probabilities=log.probabilities)
        found.append(MarginalizedIPS(kernel).estimate(one, policy).value)
    return np.array(found)


class FixedShares:
    """A target with given probabilities."""

    def __init__(self, shares):
        self._shares = shares

    def probabilities_many(self, rounds, ids=None):
        return [self._shares for _ in rounds]


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_the_published_estimator_and_unbiased_for_rewards_of_groups(seed):
    rng = np.random.default_rng(seed)
    of_log, of_target = softmax(rng.normal(size=7)), softmax(2.0 * rng.normal(size=7))
    kernel = Precomputed((GROUPS[:, None] == GROUPS).astype(float))

    weights = weights_of(kernel, of_log, of_target)

    ratio = np.bincount(GROUPS, of_target) / np.bincount(GROUPS, of_log)
    np.testing.assert_allclose(weights, ratio[GROUPS])
    of_group = rng.normal(size=3)[GROUPS]
    assert (of_log * weights) @ of_group == pytest.approx(of_target @ of_group)
    inside = rng.normal(size=7)  # a negative control: rewards that differ within groups
    assert (of_log * weights) @ inside != pytest.approx(of_target @ inside, abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_the_expected_weight_is_one_for_any_similarity(seed):
    rng = np.random.default_rng(seed)
    of_log, of_target = softmax(rng.normal(size=7)), softmax(2.0 * rng.normal(size=7))
    rows = rng.normal(size=(7, 2))

    weights = weights_of(Precomputed(Gaussian(length_scale=0.8).gram(rows)), of_log, of_target)

    assert of_log @ weights == pytest.approx(1.0)


def test_actions_that_were_never_possible_are_judged_by_similar_ones():
    of_log, of_target = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.75])
    kernel = Precomputed(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    log = Log([[0, 1, 2]] * 2, [0, 1], [0.5, 0.5], [5.0, 1.0], probabilities=[of_log] * 2)

    found = MarginalizedIPS(kernel).estimate(log, FixedShares(of_target))

    assert found.value == pytest.approx((0.0 * 5.0 + 2.0 * 1.0) / 2)
    assert found.n_matched == 1


def test_an_action_without_any_similarity_is_similar_to_itself():
    kernel = Linear()  # a row of zeros has similarity 0, also to itself
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    of_log = np.array([0.2, 0.3, 0.5])
    log = Log([rows] * 3, [0, 1, 2], of_log, [1.0, 2.0, 3.0], probabilities=[of_log] * 3)
    target = FixedShares(np.array([0.5, 0.25, 0.25]))

    assert MarginalizedIPS(kernel).estimate(log, target).value == pytest.approx(IPS().estimate(log, target).value)


def test_fewer_rounds_are_needed_where_rewards_are_smooth():
    """400 actions on a line and 300 rounds: errors over many logs, for a smooth reward and for a rough one."""
    rng = np.random.default_rng(0)
    actions, rough = np.linspace(0.0, 1.0, 400)[:, None], rng.normal(size=400)
    of_log, of_target = softmax(rng.normal(size=400)), softmax(-30.0 * (actions[:, 0] - 0.3) ** 2 + rough)
    target = FixedShares(of_target)

    def errors(rewards, estimator):
        found = []
        for seed in range(40):
            own = np.random.default_rng(seed)
            chosen = own.choice(400, p=of_log, size=300)
            noisy = rewards[chosen] + 0.1 * own.normal(size=300)
            log = Log([actions] * 300, chosen, of_log[chosen], noisy, probabilities=[of_log] * 300)
            found.append(estimator.estimate(log, target).value - of_target @ rewards)
        return np.array(found)

    similar, smooth = MarginalizedIPS(Gaussian(length_scale=0.05)), np.sin(4.0 * actions[:, 0])
    own, others = errors(smooth, similar), errors(smooth, IPS())
    assert np.sqrt(np.mean(own**2)) < 0.7 * np.sqrt(np.mean(others**2))
    # A negative control: a reward that neighbors do not share, and that the target prefers.
    own, others = errors(rough, similar), errors(rough, IPS())
    assert own.mean() < -20.0 * own.std() / np.sqrt(40)
    assert abs(others.mean()) < 4.0 * others.std() / np.sqrt(40)


def test_collected_logs_have_the_probabilities(target):
    world = kb.environments.Clustered(n_actions=5)
    live = kb.Mixed(kb.KernelUCB(Gaussian(length_scale=0.5)), epsilon=0.3, seed=0)

    log = collect_log(world, live, horizon=40, seed=1, probabilities=True)
    plain = collect_log(
        world, kb.Mixed(kb.KernelUCB(Gaussian(length_scale=0.5)), epsilon=0.3, seed=0), horizon=40, seed=1
    )

    assert plain.probabilities is None
    np.testing.assert_array_equal(log.actions, plain.actions)
    np.testing.assert_allclose(
        [own[a] for own, a in zip(log.probabilities, log.actions, strict=True)], log.propensities
    )
    np.testing.assert_allclose([own.sum() for own in log.probabilities], 1.0)
    part = log[10:20]
    np.testing.assert_array_equal(part.probabilities[0], log.probabilities[10])
    assert MarginalizedIPS(Gaussian(length_scale=0.5)).estimate(part, kb.UniformRandom()).n_rounds == 10


def test_what_cannot_be_judged_is_rejected(target):
    log = logged()
    without = Log(log.rounds, log.actions, log.propensities, log.rewards)
    with pytest.raises(InvalidParameter, match=r"need the probabilities of all actions .*collect_log"):
        MarginalizedIPS(Gaussian(length_scale=1.0)).estimate(without, target)
    estimated = PropensityModel(Linear()).estimate(log.rounds, log.actions, log.rewards)
    with pytest.raises(InvalidParameter, match="need the probabilities of all actions"):
        MarginalizedIPS(Gaussian(length_scale=1.0)).estimate(estimated, target)
    with pytest.raises(InvalidParameter, match="must not be negative, got -"):
        MarginalizedIPS(Linear()).estimate(log, target)
    slates = Log([np.eye(3)], [[0, 1]], [[0.5, 0.5]], [[0.0, 1.0]])
    with pytest.raises(NotSupported, match="slates of 2"):
        MarginalizedIPS(Gaussian(length_scale=1.0)).estimate(slates, target)
    with pytest.raises(InvalidParameter, match="leave `k` out"):
        collect_log(kb.environments.Clustered(n_actions=5), kb.UniformRandom(), horizon=3, k=2, probabilities=True)
    for options, message in (
        ({"clip": 0.0}, "largest weight"),
        ({"normalized": 1}, "normalized"),
        ({"confidence": 1.0}, "confidence"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            MarginalizedIPS(Linear(), **options)


@pytest.mark.parametrize(
    "probabilities",
    [[[0.5, 0.5]], [[0.5, 0.5], [0.5]], [[0.5, 0.5], [1.5, 0.5]], [[0.5, 0.5], [1.0, -0.1]], [[0.5, 0.5], [0.0, 1.0]],
     [[0.5, 0.5], [0.5, 0.4]], [[0.5, 0.5], [0.9, 0.9]], [[0.5, 0.5], ["a", "b"]], [[0.5, 0.5], [np.nan, 0.5]], 3],
)  # fmt: skip
def test_bad_probabilities_are_rejected(probabilities):
    with pytest.raises(InvalidParameter, match="probabilities"):
        Log([np.eye(2)] * 2, [0, 0], [0.5, 0.5], [1.0, 1.0], probabilities=probabilities)


def test_probabilities_of_slates_are_rejected():
    with pytest.raises(InvalidParameter, match="those of single actions"):
        Log([np.eye(3)], [[0, 1]], [[0.5, 0.5]], [[0.0, 1.0]], probabilities=[[0.5, 0.25, 0.25]])
