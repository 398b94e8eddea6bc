"""The rules of BKB, BBKB, EK-UCB, CBBKB and mini-batch GP-UCB, compared with their definitions."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.kernels import Gaussian
from kernelbandits.posterior import NystroemPosterior, OnlineRowSampling, Resampling
from kernelbandits.theory.exploration import SelfNormalized

KERNEL = Gaussian(length_scale=0.4)


def play(policy, n_rounds, *, n_actions=5, seed=0):
    rng = np.random.default_rng(seed)
    decisions = []
    for _ in range(n_rounds):
        decision = policy.choose(rng.uniform(size=(n_actions, 2)))
        policy.learn(decision, float(decision.context[0] + 0.1 * rng.normal()))
        decisions.append(decision)
    return decisions


class Drawn:
    """What `Resampling.select` looks at."""

    regularization = 1.0
    counts = np.array([1.0, 4.0, 0.0, 2.0])

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def squared_widths(self):
        return np.array([0.1, 0.05, 0.3, 0.9])

    def uniforms(self, n):
        return self._rng.random(n)


def test_resampling_keeps_points_with_the_stated_probabilities():
    rule, n_draws = Resampling(oversampling=2.0), 4000

    kept = np.zeros(4)
    for seed in range(n_draws):
        kept[rule.select(Drawn(seed))] += 1

    expected = np.array([0.2, 0.4, 0.0, 1.0])
    assert np.abs(kept / n_draws - expected).max() < 5 * np.sqrt(0.25 / n_draws)
    assert kept[2] == 0
    assert kept[3] == n_draws


@dataclass(frozen=True, kw_only=True)
class Watched(OnlineRowSampling):
    """Notes what the posterior passes to the rule."""

    seen: list = field(default_factory=list)

    def probability(self, unexplained, regularization):
        self.seen.append(unexplained)
        return super().probability(unexplained, regularization)


def test_online_row_sampling_uses_the_weighted_leverage_score():
    rng, gamma = np.random.default_rng(0), 0.5
    rule = Watched(oversampling=0.6, projection=2.0)
    posterior = NystroemPosterior(KERNEL, regularization=gamma, dictionary=rule, seed=4)
    points = rng.uniform(size=(60, 2))
    atoms, weights = [], []
    for row in range(60):
        unexplained = 1.0
        if atoms:
            chosen = points[atoms]
            scaled = KERNEL.gram(chosen) * np.outer(weights, weights)
            similarity = KERNEL.gram(chosen, points[row : row + 1])[:, 0] * weights
            unexplained -= similarity @ np.linalg.solve(scaled + 2.0 * gamma * np.eye(len(atoms)), similarity)

        posterior.observe(points[row : row + 1], [1.0])

        assert rule.seen[-1] == pytest.approx(unexplained, rel=1e-8)
        if posterior.certificate.n_atoms > len(atoms):
            score = 1.5 * unexplained / (unexplained + 2.0 * gamma)
            atoms.append(row)
            weights.append(1.0 / np.sqrt(min(1.0, 0.6 * score)))
    assert 3 < len(atoms) < 40


def test_a_batch_ends_when_its_widths_exceed_the_threshold():
    policy = kb.BBKB(KERNEL, regularization=0.5, exploration=0.3, threshold=2.9, oversampling=3.0, seed=1)
    rng, spent, n_batches, start = np.random.default_rng(0), 0.0, 0, None
    for _ in range(60):
        contexts = rng.uniform(size=(4, 2))
        decision = policy.choose(contexts)
        if start is None:
            start = policy.posterior.copy()
        spent += float(start.predict(decision.context[None]).width[0]) ** 2
        weights = policy.posterior._batch_weights
        policy.learn(decision, float(rng.normal()))
        if 1.0 + spent > 2.9:
            assert policy.posterior.inflation == 1.0
            spent, start, n_batches = 0.0, None, n_batches + 1
        elif n_batches:
            assert policy.posterior.inflation == pytest.approx(np.sqrt(1.0 + spent))
            assert policy.posterior._batch_weights is weights
    assert 3 < n_batches < 50


@pytest.mark.parametrize("make", [kb.BKB, kb.EKUCB, kb.CBBKB, kb.BBKB])
def test_with_the_whole_dictionary_regret_is_that_of_the_exact_policy(make):
    options = {} if make in (kb.BKB, kb.EKUCB) else {"threshold": 1.0 + 1e-9}
    exact = play(kb.KernelUCB(KERNEL, regularization=0.5, exploration=0.4), 60)

    found = play(make(KERNEL, regularization=0.5, exploration=0.4, oversampling=1e9, seed=2, **options), 60)

    assert [decision.action for decision in found] == [decision.action for decision in exact]


@pytest.mark.parametrize("make", [kb.BKB, kb.EKUCB, kb.CBBKB, kb.BBKB])
def test_with_a_small_dictionary_seeds_decide_and_are_saved(make, tmp_path):
    policies = [make(KERNEL, regularization=0.5, exploration=0.4, oversampling=0.7, seed=seed) for seed in (1, 1, 2)]
    for policy in policies:
        play(policy, 50)
    atoms = [policy.posterior.certificate.n_atoms for policy in policies]
    widths = [policy.posterior.predict(np.full((1, 2), 0.3)).width.item() for policy in policies]
    policies[0].save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")

    first, second = (play(policy, 20, seed=7) for policy in (policies[0], loaded))

    assert atoms[0] == atoms[1] < 50
    assert widths[0] == widths[1] != widths[2]
    assert [decision.action for decision in first] == [decision.action for decision in second]
    np.testing.assert_allclose([decision.width for decision in first], [decision.width for decision in second])


@pytest.mark.parametrize("make", [kb.BKB, kb.EKUCB, kb.CBBKB, kb.BBKB])
def test_intervals_of_every_dictionary_hold(make):
    """|mean − f| ≤ η · width in all rounds, f of known norm; at δ = 0.1 none of 12 runs may fail but by accident."""
    failures = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        centers, weights = rng.uniform(size=(5, 2)), rng.normal(size=5)
        weights /= np.sqrt(weights @ KERNEL.gram(centers) @ weights)
        schedule = SelfNormalized(noise_scale=0.2, norm_bound=1.0, failure_probability=0.1)
        policy = make(KERNEL, regularization=0.1, exploration=schedule, oversampling=0.5, seed=seed)
        has_failed = False
        for _ in range(40):
            contexts = rng.uniform(size=(6, 2))
            true = KERNEL.gram(contexts, centers) @ weights
            prediction = policy.posterior.predict(contexts)
            exploration = policy._exploration_now(6, None, policy.round_index)
            has_failed |= bool((np.abs(prediction.mean - true) > exploration * prediction.width + 1e-9).any())
            decision = policy.choose(contexts)
            policy.learn(decision, float(true[decision.action] + 0.2 * rng.normal()))
        failures += has_failed
    assert failures <= 2


@pytest.mark.parametrize("threshold", [1.5, 4.0])
def test_mini_batches_have_the_stated_lengths_and_few_actions(threshold):
    rng = np.random.default_rng(0)
    actions = rng.uniform(size=(40, 2))
    policy = kb.MiniBatchGPUCB(KERNEL, noise_variance=0.5, exploration=0.8, threshold=threshold)
    left, n_batches, last = 0, 0, None
    for _ in range(300):
        decision = policy.choose(actions)
        if left:
            assert decision.action == last
            left -= 1
        else:
            left, last = max(1, int((threshold - 1.0) / decision.width**2)) - 1, decision.action
            n_batches += 1
        policy.learn(decision, float(actions[decision.action, 0] + 0.3 * rng.normal()))

    gain = policy.posterior.log_det_gain
    assert n_batches <= 1 + gain / np.log((threshold + 1.0) / 2.0)
    assert n_batches < 200


def test_a_mini_batch_whose_action_is_not_offered_ends():
    policy = kb.MiniBatchGPUCB(KERNEL, noise_variance=100.0)
    policy.learn(policy.choose([[0.1, 0.2], [0.9, 0.8]]), 1.0)
    assert policy.choose([[0.9, 0.8], [0.1, 0.2]]).action == 1

    assert policy.choose([[0.9, 0.8], [0.5, 0.5]]).action in (0, 1)
    assert policy.probabilities([[0.9, 0.8], [0.1, 0.2]]).tolist() == [0.0, 1.0]


def test_a_decision_with_a_huge_width_begins_a_mini_batch_of_one():
    policy = kb.MiniBatchGPUCB(KERNEL, noise_variance=100.0)

    policy.learn(replace(policy.choose([[0.1, 0.2], [0.9, 0.8]]), width=1e200), 1.0)

    assert policy.choose([[0.9, 0.8], [0.5, 0.5]]).action in (0, 1)


@pytest.mark.parametrize("threshold", [1.0, 0.5, float("inf"), float("nan")])
@pytest.mark.parametrize("make", [kb.BBKB, kb.CBBKB])
def test_a_threshold_is_above_one(make, threshold):
    with pytest.raises(kb.errors.InvalidParameter, match="above 1 and finite"):
        make(KERNEL, threshold=threshold)


@pytest.mark.parametrize("make", [kb.BKB, kb.EKUCB, kb.CBBKB])
def test_a_policy_that_was_saved_before_it_learned_draws_the_same_dictionary(make, tmp_path):
    policy = make(kb.kernels.Gaussian(length_scale=0.4), seed=1)
    policy.save(tmp_path / "new.kb")
    loaded = kb.load(tmp_path / "new.kb")
    rng = np.random.default_rng(0)
    for _ in range(30):
        contexts = rng.uniform(size=(5, 2))
        ours, theirs = policy.choose(contexts, id="a"), loaded.choose(contexts, id="a")
        assert (ours.action, ours.mean, ours.width) == (theirs.action, theirs.mean, theirs.width)
        policy.learn(policy.choose(contexts), 0.5)
        loaded.learn(loaded.choose(contexts), 0.5)
