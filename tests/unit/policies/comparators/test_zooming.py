from math import log, sqrt

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits.errors import CannotSave, DecisionError, GuaranteeVoid, InvalidContexts, InvalidParameter
from kernelbandits.kernels import Delta, Gaussian, Linear, Spectrum, Strings

HORIZON, NORM, FACTOR = 300, 0.7, 0.06


class SlowZooming:
    """Every step as it is written, over all pairs of balls and actions; rewards in [0, 1]."""

    def __init__(self, kernel, *, horizon=HORIZON, norm_bound=NORM, factor=FACTOR):
        self.kernel, self.horizon, self.norm_bound, self.factor = kernel, horizon, norm_bound, factor
        self.balls = []  # [center, radius, plays, reward]
        self.known = {}

    def dist(self, p, q):
        if (key := (tuple(p), tuple(q))) not in self.known:
            (pp, pq), (_, qq) = self.kernel.gram([p, q])
            self.known[key] = min(1.0, self.norm_bound * sqrt(max(0.0, pp + qq - 2 * pq)))
        return self.known[key]

    def conf(self, ball):
        return self.factor * 4 * sqrt(log(self.horizon) / (1 + ball[2]))

    def in_domain(self, ball, point):
        smaller = [other for other in self.balls if other[1] < ball[1]]
        inside = self.dist(ball[0], point) <= ball[1]
        return inside and all(self.dist(other[0], point) > other[1] for other in smaller)

    def index(self, ball):
        likely = lambda other: other[3] / other[2] + self.conf(other) if other[2] else max(1.0, self.conf(other))  # noqa: E731
        pre = [(other[1] + likely(other), other) for other in self.balls]
        return ball[1] + min(value + (0.0 if other is ball else self.dist(ball[0], other[0])) for value, other in pre)

    def choose(self, points):
        if not self.balls:
            return 0, 0
        relevant = [b for b, ball in enumerate(self.balls) if any(self.in_domain(ball, point) for point in points)]
        scores = [self.index(self.balls[b]) for b in relevant]
        best = next(b for b, score in zip(relevant, scores, strict=True) if score >= max(scores) - 1e-9)
        return best, next(row for row, point in enumerate(points) if self.in_domain(self.balls[best], point))

    def learn(self, best, point, reward):
        if not self.balls:
            self.balls.append([point, 1.0, 0, 0.0])
        ball = self.balls[best]
        if self.conf(ball) <= ball[1]:
            self.balls.append([point, ball[1] / 2, 0, 0.0])
        ball[2] += 1
        ball[3] += reward


def rows(rng):
    points = rng.uniform(size=(6, 2)).round(2)
    points[3] = points[1]  # a duplicate
    return points


def words(rng):
    return ["".join(rng.choice(list("abc"), size=rng.integers(1, 6))) for _ in range(5)]


@pytest.mark.parametrize(
    ("kernel", "draw"),
    [(Linear(), rows), (Gaussian(length_scale=0.6), rows), (Spectrum(n=(1, 2)), words)],
    ids=["linear", "gaussian", "strings"],
)
def test_the_choice_is_the_definition(kernel, draw):
    policy = kb.ContextualZooming(kernel, horizon=HORIZON, norm_bound=NORM, exploration=FACTOR)
    slow, rng = SlowZooming(kernel), np.random.default_rng(0)
    for _ in range(50):
        points = draw(rng)
        decision = policy.choose(points)
        best, row = slow.choose(points)

        assert (decision.action, int(decision.memo["ball"][0])) == (row, best)
        if slow.balls:
            assert decision.score == pytest.approx(slow.index(slow.balls[best]), rel=1e-6)
            expected = [[slow.in_domain(ball, point) for point in points] for ball in slow.balls]
            assert policy.domains(points).tolist() == expected
        reward = float(rng.uniform())
        policy.learn(decision, reward)
        slow.learn(best, points[row], reward)

    assert len(policy.balls) == len(slow.balls) > 10
    assert policy.balls.radii.tolist() == [ball[1] for ball in slow.balls]


def trained(n_rounds=200, exploration=FACTOR, norm_bound=1.0, **arguments):
    policy = kb.ContextualZooming(
        Gaussian(length_scale=0.5), horizon=HORIZON, norm_bound=norm_bound, exploration=exploration, **arguments
    )
    rng = np.random.default_rng(1)
    for _ in range(n_rounds):
        decision = policy.choose(rng.uniform(size=(5, 2)))
        policy.learn(decision, float(np.clip(decision.context.sum() / 2 + 0.1 * rng.normal(), 0, 1)))
    return policy


def test_the_domains_cover_every_pair():
    """Oracle 19."""
    policy = trained()
    anywhere = np.random.default_rng(2).normal(size=(500, 2)) * 10.0 ** np.arange(500)[:, None].clip(0, 3)

    domains = policy.domains(np.vstack([anywhere, policy.balls.centers]))

    assert domains.any(axis=0).all()


def test_without_the_first_ball_pairs_would_be_left_out():
    """Negative control of the test above."""
    policy = trained()
    anywhere = np.random.default_rng(2).normal(size=(500, 2)) * 10.0

    assert not policy.domains(anywhere)[1:].any(axis=0).all()


def assert_balls_of_one_size_lie_apart(balls):
    for radius in np.unique(balls.radii):
        same = balls.radii == radius
        apart = balls.apart[np.ix_(same, same)] + 2 * np.eye(int(same.sum()))
        assert (apart > radius).all()


def test_balls_of_one_size_lie_further_apart_than_their_radius():
    assert_balls_of_one_size_lie_apart(trained().balls)


def test_late_rewards_go_to_the_ball_that_chose_and_bring_no_ball_twice():
    policy, rng = trained(), np.random.default_rng(3)
    points = rng.uniform(size=(4, 2))
    decisions = [policy.choose(points) for _ in range(40)]
    ball = int(decisions[0].memo["ball"][0])
    before = policy.balls.plays[ball]

    for decision in reversed(decisions):
        policy.learn(decision, 1.0)

    assert policy.balls.plays[ball] == before + 40
    assert_balls_of_one_size_lie_apart(policy.balls)


def test_pending_decisions_narrow_the_confidence_of_their_ball():
    policy, points = trained(20, exploration=1.0), np.full((1, 2), 0.5)
    before = policy.choose(points)

    policy.expect(before)
    after = policy.choose(points)

    n_plays = policy.balls.plays[int(before.memo["ball"][0])]
    assert after.mean == before.mean
    assert before.width == pytest.approx(4 * sqrt(log(HORIZON) / (1 + n_plays)))
    assert after.width == pytest.approx(4 * sqrt(log(HORIZON) / (2 + n_plays)))


def gaussian_distance(first, second):
    return np.sqrt(2 - 2 * np.exp(-((first[:, None] - second) ** 2).sum(axis=2) / (2 * 0.5**2)))


def test_a_distance_of_ones_own_is_like_the_kernel_that_implies_it():
    left = kb.ContextualZooming(
        Gaussian(length_scale=0.5), horizon=HORIZON, norm_bound=3.0, exploration=0.1, reward_range=(-2.0, 3.0)
    )
    right = kb.ContextualZooming(
        distance=gaussian_distance, horizon=HORIZON, norm_bound=3.0, exploration=0.1, reward_range=(-2.0, 3.0)
    )
    rng = np.random.default_rng(4)
    for _ in range(120):
        points = rng.uniform(size=(5, 2))
        decision, other = left.choose(points), right.choose(points)
        assert decision.action == other.action
        reward = float(rng.uniform(-2.0, 3.0))
        left.learn(decision, reward)
        right.learn(other, reward)
    assert len(left.balls) == len(right.balls) > 5


def test_the_length_of_the_range_scales_distances_and_rewards():
    """A problem in other units is the same problem."""
    small, large = (
        kb.ContextualZooming(
            Linear(), horizon=HORIZON, norm_bound=unit, exploration=0.1, reward_range=(shift, shift + unit)
        )
        for unit, shift in ((1.0, 0.0), (8.0, -4.0))
    )
    rng = np.random.default_rng(5)
    for _ in range(150):
        points = rng.uniform(size=(5, 2))
        left, right = small.choose(points), large.choose(points)
        assert left.action == right.action
        np.testing.assert_allclose(8.0 * left.score - 4.0, right.score)
        reward = float(rng.uniform())
        small.learn(left, reward)
        large.learn(right, 8.0 * reward - 4.0)


def test_points_that_are_all_alike_are_one_ball_until_it_is_full():
    policy = kb.ContextualZooming(Delta(), horizon=50, norm_bound=5.0, exploration=0.2)
    for _ in range(40):
        policy.learn(policy.choose(["same"]), 0.5)

    assert set(np.diff(np.log2(policy.balls.radii))) == {-1.0}


def test_it_learns_where_the_best_action_lies():
    """With a small factor; with the paper's constant 2000 rounds are hardly enough for the first ball."""
    actions = np.linspace(0, 1, 20)[:, None]
    rewards = 1.0 - np.abs(actions[:, 0] - 0.7)
    lost = {}
    for factor in (1.0, 0.05):
        policy = kb.ContextualZooming(Linear(), horizon=2000, norm_bound=1.0, exploration=factor)
        rng = np.random.default_rng(6)
        plays = policy.play([actions] * 1000, np.clip(rewards + 0.05 * rng.normal(size=(1000, 20)), 0, 1))
        lost[factor] = (1.0 - rewards[plays.action]).mean()

    assert lost[0.05] < 0.5 * (1.0 - rewards).mean() < lost[1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "a kernel or by a distance"),
        ({"kernel": Linear(), "distance": gaussian_distance}, "a kernel or by a distance"),
        ({"distance": 3.0}, "a function of two collections"),
        ({"kernel": Linear(), "kind": Strings()}, "knows the kind of its points"),
        ({"kernel": Linear(), "horizon": 0}, "horizon must be a whole number"),
        ({"kernel": Linear(), "norm_bound": 0.0}, "norm bound must be"),
        ({"kernel": Linear(), "exploration": -1.0}, "The exploration must be"),
        ({"kernel": Linear(), "reward_range": None}, "range must be declared"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.ContextualZooming(**{"horizon": 10, **arguments})


@pytest.mark.parametrize(
    ("distance", "message"),
    [
        (lambda a, b: np.zeros((len(a), 1 + len(b))), "shape"),
        (lambda a, b: -np.ones((len(a), len(b))), "negative entries"),
        (lambda a, b: np.full((len(a), len(b)), np.nan), "NaN"),
    ],
)
def test_a_function_that_is_not_a_distance_is_rejected(distance, message):
    policy = kb.ContextualZooming(distance=distance, horizon=10)
    decision = policy.choose([[0.5], [0.7]])

    with pytest.raises(InvalidContexts, match=message):
        policy.learn(decision, 0.5)

    assert (policy.round_index, len(policy.balls)) == (1, 0)


def test_points_and_decisions_that_do_not_fit_leave_no_trace():
    policy = trained(30)
    decision, n_balls = policy.choose(np.ones((2, 2))), len(policy.balls)

    with pytest.raises(InvalidContexts, match="3 columns"):
        policy.choose(np.ones((2, 3)))
    with pytest.raises(InvalidContexts, match="3 columns"):
        policy.expect(kb.Decision(action=0, context=np.ones(3), id="x", memo={"ball": [0]}))
    with pytest.raises(DecisionError, match="active balls"):
        policy.learn(kb.Decision(action=0, context=np.ones(2)), 0.5)
    with pytest.raises(DecisionError, match="active balls"):
        policy.learn(kb.Decision(action=0, context=np.ones(2), memo={"ball": [n_balls]}), 0.5)
    with pytest.raises(InvalidContexts, match="overflow"):
        kb.ContextualZooming(Linear(), horizon=9).learn(
            kb.Decision(action=0, context=np.full(2, 1e200), memo={"ball": [0]}), 0.5
        )

    assert policy.round_index == 31
    assert policy.choose(np.ones((2, 2))).action == decision.action


def test_a_distance_cannot_be_saved(tmp_path):
    with pytest.raises(CannotSave, match="A distance is a function"):
        kb.ContextualZooming(distance=gaussian_distance, horizon=10).save(tmp_path / "policy.kb")


def test_rounds_beyond_the_horizon_are_warned_of_once():
    policy = kb.ContextualZooming(Linear(), horizon=1)
    policy.learn(policy.choose([[0.5]]), 0.5)

    with pytest.warns(GuaranteeVoid, match="beyond the horizon 1"):
        policy.choose([[0.5]])
    policy.choose([[0.5]])


def test_a_ball_with_hundreds_of_plays_is_restored(tmp_path):
    policy = kb.ContextualZooming(Gaussian(length_scale=1.0), horizon=1000, norm_bound=NORM, exploration=1.0)
    for _ in range(150):
        policy.learn(policy.choose([[0.0]]), 0.25)

    assert policy.balls.plays.max() > 106
    policy.save(tmp_path / "policy.kb")
    assert kb.load(tmp_path / "policy.kb").choose([[0.0]]).score == policy.choose([[0.0]]).score
