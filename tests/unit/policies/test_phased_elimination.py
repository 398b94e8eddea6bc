from math import ceil, log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from definitions import ridge
from kernelbandits.errors import DecisionError, InvalidContexts, InvalidParameter, NotSupported
from kernelbandits.kernels import FromCallable, Gaussian, Linear, Spectrum
from kernelbandits.posterior import posterior_factory

KERNEL = Gaussian(length_scale=0.3)
ACTIONS = np.random.default_rng(0).uniform(size=(15, 2))
ACTIONS[7] = ACTIONS[2]  # a duplicate
VALUES = np.sin(4 * ACTIONS).sum(axis=1) / 4 + 0.5


class SlowElimination:
    """Every phase refitted from scratch in every round; the lowest of the widest actions is played."""

    def __init__(self, kernel, actions, regularization, scale_of, lengths):
        self.kernel, self.actions, self.regularization = kernel, actions, regularization
        self.scale_of, self.lengths = scale_of, lengths
        self.phase, self.active, self.rows, self.rewards = 1, np.arange(len(actions)), [], []

    def predict(self):
        data = self.actions[self.rows] if self.rows else None
        return ridge(self.kernel, data, self.rewards, self.actions[self.active], self.regularization)

    def choose(self):
        width = self.predict()[1]
        return int(self.active[np.flatnonzero(width >= width.max() - 1e-9)[0]])

    def learn(self, row, reward):
        self.rows.append(row)
        self.rewards.append(reward)
        if len(self.rows) == self.lengths[self.phase - 1]:
            mean, width = self.predict()
            scale = self.scale_of(self.phase, len(self.active))
            self.active = self.active[mean + scale * width >= (mean - scale * width).max()]
            self.phase, self.rows, self.rewards = self.phase + 1, [], []


def valid_scale(phase, n_active):
    return 0.15 * sqrt(2 * log(2 * n_active * phase * (phase + 1) / 0.2)) + sqrt(0.04) * 1.5


CASES = {
    "valid": (
        {"norm_bound": 1.5, "noise_scale": 0.15, "failure_probability": 0.2, "exploration": "theory"},
        valid_scale,
    ),
    "by hand": ({"exploration": 0.25}, lambda phase, n_active: 0.25),
}


@pytest.mark.parametrize("horizon", [300, None])
@pytest.mark.parametrize("case", CASES)
def test_the_choice_is_the_definition(case, horizon):
    arguments, scale_of = CASES[case]
    policy = kb.PhasedElimination(
        KERNEL, ACTIONS, regularization=0.04, horizon=horizon, reward_range=(-3.0, 3.0), **arguments
    )
    lengths = [8 * 2**i for i in range(7)]
    if horizon:
        lengths = [ceil(sqrt(horizon))]
        for _ in range(4):
            lengths.append(ceil(sqrt(horizon * lengths[-1])))
    slow, rng = SlowElimination(KERNEL, ACTIONS, 0.04, scale_of, lengths), np.random.default_rng(1)
    for _ in range(200):
        decision = policy.choose(ACTIONS)
        assert (decision.action, decision.stage) == (slow.choose(), slow.phase)
        mean, width = slow.predict()
        place = list(slow.active).index(decision.action)
        assert_allclose([decision.mean, decision.width], [mean[place], width[place]], rtol=1e-7, atol=1e-9)
        reward = float(VALUES[decision.action] + 0.15 * rng.normal())
        policy.learn(decision, reward)
        slow.learn(decision.action, reward)
        assert policy.active.tolist() == slow.active.tolist()

    assert policy.phase == slow.phase > 2
    assert len(policy.active) < 15


@pytest.mark.parametrize("horizon", [300, None])
def test_phase_i_spends_a_share_of_one_in_i_times_i_plus_one_of_the_failure_probability(horizon):
    policy = kb.PhasedElimination(
        KERNEL, ACTIONS, regularization=0.04, horizon=horizon, reward_range=(-3.0, 3.0), **CASES["valid"][0]
    )
    for _ in range(120):
        decision = policy.choose(ACTIONS)
        policy.learn(decision, float(VALUES[decision.action]))
        expected = valid_scale(policy.phase, len(policy.active))
        assert policy.scale == pytest.approx(expected, rel=1e-12)

    assert policy.phase >= 3
    too_much = 0.15 * sqrt(2 * log(2 * len(policy.active) * policy.phase / 0.2)) + sqrt(0.04) * 1.5  # δ/i
    assert policy.scale > too_much * 1.01


def actions_played(rewards_of, n_rounds=200):
    policy = kb.PhasedElimination(KERNEL, ACTIONS, regularization=0.04, horizon=300, exploration=0.3)
    rows, phases = [], []
    for _ in range(n_rounds):
        decision = policy.choose(ACTIONS)
        policy.learn(decision, rewards_of(decision.action))
        rows.append(decision.action)
        phases.append(decision.stage)
    return np.array(rows), np.array(phases)


def test_plays_of_a_phase_do_not_depend_on_its_rewards():
    """As for the levels of SupKernelUCB; later phases have lost actions, so their plays do depend on earlier ones."""
    rng = np.random.default_rng(2)
    left, phases = actions_played(lambda row: float(np.clip(VALUES[row], 0, 1)))
    right, _ = actions_played(lambda row: float(rng.uniform() * (row >= 0)))

    assert (left[phases == 1] == right[phases == 1]).all()
    assert (left[phases == 3] != right[phases == 3]).any()


def share_that_lost_the_best(n_runs, **arguments):
    lost = []
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=15)
        gram = KERNEL.gram(ACTIONS)
        values = gram @ (weights * 1.5 / sqrt(weights @ gram @ weights))
        policy = kb.PhasedElimination(
            KERNEL, ACTIONS, regularization=0.05, horizon=400, reward_range=None, noise_scale=0.3, **arguments
        )
        policy.play([ACTIONS] * 150, values + 0.3 * rng.normal(size=(150, 15)))
        lost.append(not np.isin(policy.active, np.flatnonzero(values >= values.max() - 1e-12)).any())
    return np.mean(lost)


def test_the_best_action_is_never_dropped_with_the_valid_scale():
    assert share_that_lost_the_best(10, exploration="theory", norm_bound=1.5, failure_probability=0.1) == 0.0


def test_a_scale_that_is_too_small_drops_the_best_action():
    """Negative control of the test above."""
    assert share_that_lost_the_best(10, exploration=0.005) > 0.2


def test_a_kernel_of_ones_own_is_treated_like_a_formula():
    own = FromCallable(lambda first, second: KERNEL.gram(first, second))
    left, right = (
        kb.PhasedElimination(kernel, ACTIONS, regularization=0.04, horizon=200, exploration=0.3)
        for kernel in (KERNEL, own)
    )
    rewards = np.clip(VALUES + 0.1 * np.random.default_rng(3).normal(size=(150, 15)), 0, 1)

    assert left.play([ACTIONS] * 150, rewards).action.tolist() == right.play([ACTIONS] * 150, rewards).action.tolist()
    assert left.active.tolist() == right.active.tolist()


def short(**arguments):
    return kb.PhasedElimination(KERNEL, ACTIONS, regularization=0.1, horizon=25, exploration=0.5, **arguments)


def test_pending_plays_count_in_the_phase_and_shrink_widths():
    policy, other = short(), short()
    pending = []
    for _ in range(5):
        pending.append(policy.choose(ACTIONS))
        policy.expect(pending[-1])

    straight = []
    for _ in range(5):
        straight.append(other.choose(ACTIONS))
        other.learn(straight[-1], 0.5)

    assert [decision.action for decision in pending] == [decision.action for decision in straight]
    assert_allclose([decision.width for decision in pending], [decision.width for decision in straight], rtol=1e-9)


def test_while_the_last_rewards_are_pending_the_best_guess_is_played_and_not_learned():
    policy = short()
    decisions = []
    for _ in range(policy.phase_length):
        decisions.append(policy.choose(ACTIONS))
        policy.expect(decisions[-1])
    for place, decision in enumerate(decisions[:-1]):
        policy.learn(decision, 1.0 if place == 1 else 0.0)

    waiting = policy.choose(ACTIONS)
    assert (waiting.stage, waiting.action, policy.phase) == (None, decisions[1].action, 1)
    policy.learn(waiting, 0.0)
    assert policy.posterior.n_observations == policy.phase_length - 1
    policy.learn(decisions[-1], 0.0)
    assert policy.phase == 2
    assert policy.choose(ACTIONS).stage == 2


def test_a_reward_that_never_comes_is_played_for_again():
    policy = short()
    decisions = []
    for _ in range(policy.phase_length):
        decisions.append(policy.choose(ACTIONS))
        policy.expect(decisions[-1])
    policy.learn_many(decisions[:-1], [0.5] * (len(decisions) - 1))

    policy.withdraw(decisions[-1])
    again = policy.choose(ACTIONS)

    assert (again.stage, again.action) == (1, decisions[-1].action)
    policy.learn(again, 0.5)
    assert policy.phase == 2


@pytest.mark.parametrize("together", [True, False])
def test_the_phase_ends_with_its_last_reward_however_it_comes(together):
    policy = short()
    decisions = []
    for _ in range(policy.phase_length):
        decisions.append(policy.choose(ACTIONS))
        policy.expect(decisions[-1])

    if together:
        policy.learn_many(decisions, [0.5] * len(decisions))
    else:
        for decision in reversed(decisions):
            assert policy.phase == 1
            policy.learn(decision, 0.5)

    assert policy.phase == 2
    assert policy.posterior.n_observations == 0


def test_one_play_too_many_is_waited_for_or_withdrawn():
    policy = short()
    extra = policy.choose(ACTIONS)
    for _ in range(policy.phase_length):
        decision = policy.choose(ACTIONS)
        if policy.posterior.n_observations == policy.phase_length - 1:
            policy.expect(extra)
        policy.learn(decision, 0.5)

    assert policy.phase == 1
    policy.withdraw(extra)
    assert policy.phase == 2


def test_what_comes_after_its_phase_is_learned_by_nothing():
    policy = short()
    forgotten = policy.choose(ACTIONS)
    for _ in range(policy.phase_length):
        policy.learn(policy.choose(ACTIONS), 0.5)

    policy.learn(forgotten, 1.0)

    assert (policy.phase, policy.posterior.n_observations) == (2, 0)
    with pytest.raises(NotSupported, match="Phase 1 has ended"):
        policy.amend(forgotten, was=1.0, now=0.0)
    with pytest.raises(NotSupported, match="Phase 1 has ended"):
        policy.unlearn(forgotten, 1.0)


def eliminated():
    policy = kb.PhasedElimination(KERNEL, ACTIONS, regularization=0.04, horizon=300, exploration=0.2)
    policy.play([ACTIONS] * 200, np.tile(np.clip(VALUES, 0, 1), (200, 1)))
    return policy


def test_only_active_actions_are_played_where_one_is_eligible():
    policy = eliminated()
    dropped = np.setdiff1d(np.arange(15), policy.active)
    eligible = np.isin(np.arange(15), [*dropped, policy.active[-1]])

    assert len(dropped) > 2
    assert policy.choose(ACTIONS, eligible=eligible).action == policy.active[-1]
    among_dropped = policy.choose(ACTIONS, eligible=np.isin(np.arange(15), dropped))
    prediction = policy.posterior.predict(ACTIONS[dropped])
    assert among_dropped.stage is None
    assert among_dropped.action == dropped[np.argmax(prediction.mean)]


def test_a_phase_that_cannot_end_leaves_everything_as_it_was(monkeypatch):
    policy = short()
    for _ in range(policy.phase_length - 1):
        policy.learn(policy.choose(ACTIONS), 0.5)
    decision = policy.choose(ACTIONS)

    def fail():
        raise InvalidContexts("no")

    monkeypatch.setattr(policy, "_end_phase", fail)
    with pytest.raises(InvalidContexts):
        policy.learn(decision, 0.5)
    monkeypatch.undo()

    assert (policy.phase, policy.posterior.n_observations) == (1, policy.phase_length - 1)
    policy.learn(decision, 0.5)
    assert policy.phase == 2


def test_one_action_is_all_there_is():
    policy = kb.PhasedElimination(Linear(), [[2.0]], exploration="theory", norm_bound=1.0)
    for _ in range(60):
        policy.learn(policy.choose([[2.0]]), 1.0)

    assert policy.active.tolist() == [0]


def test_explanations_come_from_the_plays_of_the_phase():
    policy = short()
    decision = policy.choose(ACTIONS)
    policy.learn(decision, 0.75)

    assert policy.explain(decision).mean == pytest.approx(0.75 / 1.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exploration": "theory"}, "norm_bound=… \\(or exploration"),
        ({"norm_bound": 1.0}, "belong to the exploration of the theorem"),
        ({"exploration": "theory", "norm_bound": 1.0, "reward_range": None}, "noise_scale=…, or a reward_range"),
        ({"norm_bound": -1.0}, "norm bound must be"),
        ({"exploration": 0.0}, "exploration must be a finite number above zero"),
        ({"exploration": 1.0, "horizon": 0}, "horizon must be a whole number"),
        ({"exploration": 1.0, "failure_probability": 1.0}, "strictly between 0 and 1"),
        ({"exploration": 1.0, "regularization": 0.0}, "regularization must be positive"),
        ({"exploration": 1.0, "posterior": "fast"}, "posterior must be one of"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.PhasedElimination(KERNEL, ACTIONS, **arguments)


def test_what_does_not_fit_is_rejected():
    with pytest.raises(InvalidContexts, match="compares strings"):
        kb.PhasedElimination(Spectrum(n=2), ACTIONS, exploration=1.0)
    with pytest.raises(InvalidContexts, match="overflow"):
        kb.PhasedElimination(Linear(), [[1e200]], exploration=1.0)
    with pytest.raises(DecisionError, match="a play of phase 3, and this is phase 1"):
        short().learn(kb.Decision(action=0, context=ACTIONS[0], stage=3), 0.5)


def test_a_posterior_that_forgets_is_rejected():
    with pytest.raises(InvalidParameter, match="may not forget"):
        kb.PhasedElimination(
            Gaussian(length_scale=0.3), np.eye(2), exploration=0.3, posterior=posterior_factory("windowed", length=5)
        )


@pytest.mark.parametrize("name", ["phase", "scale", "phase_length", "active"])
def test_where_it_stands_is_not_set_from_outside(name):
    policy = kb.PhasedElimination(KERNEL, ACTIONS, exploration=0.25)

    with pytest.raises(AttributeError):
        setattr(policy, name, getattr(policy, name))


def test_items_of_a_similarity_table_are_eliminated_like_rows():
    values = KERNEL.gram(ACTIONS)
    ids = [f"item {row}" for row in range(len(ACTIONS))]
    table = kb.PhasedElimination(kb.kernels.Precomputed(values, ids=ids), ids, horizon=200)
    rows = kb.PhasedElimination(KERNEL, ACTIONS, horizon=200)

    for t in range(200):
        by_id, by_row = table.choose(ids), rows.choose(ACTIONS)
        assert by_id.action == by_row.action
        reward = 0.5 + 0.5 * np.sin(t * (by_id.action + 1))
        table.learn(by_id, reward)
        rows.learn(by_row, reward)

    assert len(table.active) == len(rows.active) < len(ACTIONS)
