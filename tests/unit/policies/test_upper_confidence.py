import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kernelbandits as kb
from definitions import log_det_gain, ridge
from kernelbandits.errors import GuaranteeVoid, InvalidParameter, InvalidReward
from kernelbandits.kernels import Delta, Gaussian, Linear
from kernelbandits.theory import exploration as schedules

KERNEL = Gaussian(length_scale=0.4)
RNG = np.random.default_rng(0)
HISTORY, REWARDS, ROUND = RNG.uniform(size=(12, 2)), RNG.normal(size=12), RNG.uniform(size=(7, 2))


def warm(exploration=0.7, regularization=0.2, **arguments):
    policy = kb.KernelUCB(KERNEL, regularization=regularization, exploration=exploration, **arguments)
    policy.warm_start(HISTORY, REWARDS)
    return policy


@pytest.mark.parametrize("exploration", [0.0, 0.3, 2.5])
@pytest.mark.parametrize("regularization", [0.05, 3.0])
def test_the_choice_has_the_highest_mean_plus_exploration_times_width(exploration, regularization):
    policy = warm(exploration, regularization)

    decision = policy.choose(ROUND)

    mean, width = ridge(KERNEL, HISTORY, REWARDS, ROUND, regularization)
    best = int(np.argmax(mean + exploration * width))
    assert decision.action == best
    assert_allclose([decision.mean, decision.width], [mean[best], width[best]], rtol=1e-8)
    assert decision.score == pytest.approx(decision.mean + exploration * decision.width)
    assert_allclose(decision.context, ROUND[best])
    assert decision.propensity == 1.0


def test_the_first_choice_is_the_largest_self_similarity():
    policy = kb.KernelUCB(Linear(), regularization=0.5)

    assert policy.choose([[1.0, 0.0], [0.0, -3.0], [2.0, 0.0]]).action == 1


def test_ties_go_to_the_lowest_row():
    policy = kb.KernelUCB(KERNEL)

    assert policy.choose(ROUND).action == 0
    assert policy.probabilities(ROUND).tolist() == [1.0] + [0.0] * 6


def test_random_ties_are_drawn_evenly_with_their_propensity():
    policy = kb.KernelUCB(KERNEL, ties="random", seed=1)

    decisions = [policy.choose(ROUND) for _ in range(3500)]

    counts = np.bincount([decision.action for decision in decisions], minlength=7)
    assert {decision.propensity for decision in decisions} == {1.0 / 7.0}
    assert ((counts - 500) ** 2 / 500).sum() < 22.5  # chi-square, 6 degrees of freedom, 0.1 %
    assert_allclose(policy.probabilities(ROUND), 1.0 / 7.0)


def test_scores_within_the_tolerance_are_tied_and_others_are_not():
    points = np.array([[1.0], [1.0 + 3e-11], [1.0 + 1e-9]])
    policy = kb.KernelUCB(Linear(), regularization=1.0, ties="random", seed=0)

    assert policy.probabilities(points[:2]).tolist() == [0.5, 0.5]
    assert policy.probabilities(points[[0, 2]]).tolist() == [0.0, 1.0]


def test_the_context_kept_is_a_copy():
    contexts = ROUND.copy()
    decision = warm().choose(contexts)

    contexts[:] = 99.0

    assert_allclose(decision.context, ROUND[decision.action])


def test_an_id_of_ones_own_names_the_decision_once():
    policy = warm()
    decision = policy.choose(ROUND, id="request 17")
    policy.learn(decision, 0.5)

    assert decision.id == "request 17"
    with pytest.raises(kb.errors.AlreadyLearnt, match="'request 17' was learned or is pending"):
        policy.choose(ROUND, id="request 17")
    with pytest.raises(InvalidParameter, match="a string that is not empty"):
        policy.choose(ROUND, id="")


# -- pending decisions: mean from observed data, width from observed and pending -------------------------------------


@pytest.mark.parametrize("regularization", [0.05, 2.0])
def test_an_expected_decision_counts_in_widths_and_not_in_means(regularization):
    policy = warm(0.7, regularization)
    waiting = [policy.choose(ROUND[[row]]) for row in (2, 5, 5)]

    for decision in waiting:
        policy.expect(decision)

    pending = ROUND[[2, 5, 5]]
    mean, _ = ridge(KERNEL, HISTORY, REWARDS, ROUND, regularization)
    _, width = ridge(KERNEL, np.vstack([HISTORY, pending]), np.zeros(15), ROUND, regularization)
    decision = policy.choose(ROUND)
    best = int(np.argmax(mean + 0.7 * width))
    assert decision.action == best
    assert_allclose([decision.mean, decision.width], [mean[best], width[best]], rtol=1e-8)
    assert decision.round_index == 4


def test_a_named_schedule_is_multiplied_by_the_root_of_one_plus_pending_widths():
    schedule = schedules.Mixture(noise_scale=0.3, norm_bound=1.5, failure_probability=0.1)
    policy = warm(schedule, 0.2)
    observed = policy.posterior.predict(ROUND[[2, 5]]).width
    for row in (2, 5):
        policy.expect(policy.choose(ROUND[[row]]))

    decision = policy.choose(ROUND)

    gain = log_det_gain(KERNEL, np.vstack([HISTORY, ROUND[[2, 5]]]), 0.2)
    situation = schedules.RoundState(round_index=3, n_actions=7, log_det_gain=gain, regularization=0.2)
    factor = np.sqrt(1.0 + (observed**2).sum())
    assert (decision.score - decision.mean) / decision.width == pytest.approx(schedule(situation) * factor, rel=1e-9)


def test_a_constant_exploration_is_not_multiplied():
    policy = warm(0.7)
    policy.expect(policy.choose(ROUND[[3]]))

    decision = policy.choose(ROUND)

    assert (decision.score - decision.mean) / decision.width == pytest.approx(0.7)


def test_settling_moves_the_widths_of_what_is_still_pending():
    """The cache of the pending decisions is renewed when observed data change."""
    policy = warm()
    first, second = policy.choose(ROUND[[1]]), policy.choose(ROUND[[4]])
    policy.expect(first)
    policy.expect(second)
    policy.choose(ROUND)

    policy.learn(first, 1.0)

    data = np.vstack([HISTORY, ROUND[[1, 4]]])
    _, width = ridge(KERNEL, data, np.zeros(14), ROUND, 0.2)
    mean, _ = ridge(KERNEL, data[:13], np.append(REWARDS, 1.0), ROUND, 0.2)
    decision = policy.choose(ROUND)
    assert_allclose([decision.mean, decision.width], [mean[decision.action], width[decision.action]], rtol=1e-8)


# -- slates ----------------------------------------------------------------------------------------------------------


def test_a_ranking_is_sorted_by_score():
    policy = warm()

    slate = policy.choose(ROUND, k=4, ids=list("abcdefg"))

    mean, width = ridge(KERNEL, HISTORY, REWARDS, ROUND, 0.2)
    assert slate.actions.tolist() == np.argsort(-(mean + 0.7 * width))[:4].tolist()
    assert len({decision.id for decision in slate}) == 4
    assert [decision.item for decision in slate] == ["abcdefg"[row] for row in slate.actions]
    assert slate.propensity == 1.0
    assert slate[0].action == policy.choose(ROUND).action


@pytest.mark.parametrize("n_pending", [0, 1, 4])
def test_a_diverse_slate_is_what_choosing_and_expecting_one_by_one_gives(n_pending):
    for exploration in (
        0.7,
        schedules.Mixture(noise_scale=0.3, norm_bound=1.5, failure_probability=0.1),
        schedules.GPUCBFinite(failure_probability=0.1),  # depends on the round and on how many actions are left
    ):
        policy, stepwise = warm(exploration), warm(exploration)
        for either in (policy, stepwise):
            for row in range(n_pending):
                either.expect(either.choose(ROUND[[row]] + 0.1))

        slate = policy.choose(ROUND, k=5, diverse=True)

        eligible = np.ones(7, dtype=bool)
        for placed in slate:
            decision = stepwise.choose(ROUND, eligible=eligible)
            stepwise.expect(decision)
            eligible[decision.action] = False
            assert placed.action == decision.action
            assert_allclose(
                [placed.mean, placed.width, placed.score], [decision.mean, decision.width, decision.score], rtol=1e-8
            )


def test_diversity_spreads_a_slate_over_duplicates():
    near = np.array([[0.1, 0.1], [0.1, 0.1001], [0.9, 0.9], [0.9, 0.9001]])
    policy = kb.KernelUCB(KERNEL, regularization=0.1)

    assert policy.choose(near, k=2).actions.tolist() == [0, 1]
    assert policy.choose(near, k=2, diverse=True).actions.tolist() == [0, 3]


def test_tied_places_of_a_random_slate_have_conditional_propensities():
    policy = kb.KernelUCB(KERNEL, ties="random", seed=0)

    slate = policy.choose(ROUND[:4], k=3)

    assert [decision.propensity for decision in slate] == pytest.approx([1 / 4, 1 / 3, 1 / 2])
    assert slate.propensity == pytest.approx(1 / 24)


def test_members_of_a_slate_are_learned_one_by_one():
    policy = warm()
    slate = policy.choose(ROUND, k=3)

    policy.learn(slate[1], 0.5)
    policy.learn_many([slate[0], slate[2]], [0.1, 0.2])

    assert policy.round_index == 4


@pytest.mark.parametrize("k", [0, 8, -1, 2.0, True, "2"])
def test_a_slate_longer_than_the_round_is_rejected(k):
    with pytest.raises(InvalidParameter, match="from 1 to the 7 eligible actions"):
        warm().choose(ROUND, k=k)


def test_a_slate_has_no_single_id_and_diversity_needs_a_length():
    with pytest.raises(InvalidParameter, match="can name only one"):
        warm().choose(ROUND, k=2, id="x")
    with pytest.raises(InvalidParameter, match="needs its length"):
        warm().choose(ROUND, diverse=True)


# -- explaining ------------------------------------------------------------------------------------------------------


def test_an_explanation_adds_up():
    policy = warm(0.7)
    decision = policy.choose(ROUND)

    whole, short = policy.explain(decision, most=100), policy.explain(decision, most=3)

    assert len(whole.contributions) == 12
    assert sum(part.effect for part in whole.contributions) == pytest.approx(whole.mean)
    assert whole.remainder == pytest.approx(0.0, abs=1e-9)
    assert whole.mean == pytest.approx(decision.mean)
    assert whole.score == pytest.approx(decision.score)
    assert whole.bonus == pytest.approx(0.7 * decision.width)
    assert whole.exploration_share == pytest.approx(whole.bonus / (abs(whole.mean) + whole.bonus))
    assert sum(part.effect for part in short.contributions) + short.remainder == pytest.approx(whole.mean)
    shares = [abs(part.share) for part in whole.contributions]
    assert shares == sorted(shares, reverse=True)


def test_a_contribution_names_similarity_weight_times_and_reward():
    policy = kb.KernelUCB(KERNEL, regularization=0.5)
    policy.warm_start([[0.0, 0.0], [0.0, 0.0]], [0.2, 0.6])

    explanation = policy.explain(policy.choose([[0.4, 0.0]]))

    (part,) = explanation.contributions
    assert_allclose(part.context, [0.0, 0.0])
    assert part.similarity == pytest.approx(np.exp(-0.5))
    assert part.weight == pytest.approx(0.8 / 2.5)
    assert part.effect == pytest.approx(part.weight * part.similarity)
    assert (part.times, part.mean_reward) == (2, pytest.approx(0.4))
    assert "exploration" in str(explanation)
    assert str(explanation).count("\n") == 3  # sentence, header, context, exploration


@pytest.mark.parametrize(
    ("kernel", "constant"),
    [
        (KERNEL + 0.5, 0.5),
        (2.0 * (KERNEL + 0.5) + 0.25, 1.25),
        (KERNEL + 0.5 * Linear(), None),
        ((KERNEL + 0.5) * (KERNEL + 1.0), None),
    ],
    ids=["sum", "scaled", "none", "product"],
)
def test_the_usual_reward_is_the_part_that_is_the_same_everywhere(kernel, constant):
    rng = np.random.default_rng(3)
    past, rewards = rng.uniform(size=(9, 2)), rng.uniform(0.2, 1.0, size=9)
    policy = kb.KernelUCB(kernel, regularization=0.3, exploration=0.4)
    policy.warm_start(past, rewards)
    dual = np.linalg.solve(kernel.gram(past) + 0.3 * np.eye(9), rewards)

    for most in (0, 4, 9):
        decision = policy.choose(rng.uniform(size=(5, 2)))
        explanation = policy.explain(decision, most=most)
        similarity = kernel.gram(past, decision.context[None])[:, 0]
        usual = None if constant is None else pytest.approx(constant * dual.sum())
        effects = dual * (similarity - (constant or 0.0))
        gross = np.abs(effects).sum() + abs((constant or 0.0) * dual.sum())

        assert explanation.usual == usual
        assert [part.effect for part in explanation.contributions] == pytest.approx(
            sorted(effects, key=abs, reverse=True)[:most]
        )
        assert [part.share for part in explanation.contributions] == pytest.approx(
            [abs(part.effect) / gross for part in explanation.contributions]
        )
        shares = [part.share for part in explanation.contributions]
        assert sum(shares) + explanation.usual_share + explanation.remainder_share == pytest.approx(1.0)
        assert (explanation.usual or 0.0) + sum(
            part.effect for part in explanation.contributions
        ) + explanation.remainder == pytest.approx(decision.mean)
        columns = explanation.to_columns()
        assert sum(columns["effect"]) == pytest.approx(decision.score)
        assert np.nansum(columns["share"]) == pytest.approx(1.0)
        assert columns["part"].count("usual reward") == (constant is not None)
        assert columns["part"].count("all others") == (most < 9)
        assert ("usual reward" in str(explanation)) == (constant is not None)


def test_an_explanation_shows_pairs_in_words_and_marks_what_it_cuts():
    disjoint = kb.LinUCB(model="disjoint")
    disjoint.learn(disjoint.choose([[0.25, 0.5]], ids=["shoes"]), 1.0)
    assert "mostly from shoes: [0.25 0.5 ], and" in str(disjoint.explain(disjoint.choose([[0.25, 0.5]], ids=["shoes"])))

    texts = kb.KernelUCB(kb.kernels.Spectrum(n=2))
    texts.learn(texts.choose(["abcdefghij" * 20]), 1.0)
    sentence, _, row, *_ = str(texts.explain(texts.choose(["abcdefghij" * 20]))).splitlines()
    assert f"mostly from {('abcdefghij' * 4)[:39]}…, and" in sentence
    assert row.endswith(f"{('abcdefghij' * 6)[:59]}…")


def test_an_explanation_begins_with_a_sentence():
    policy = kb.KernelUCB(Delta() + 1.0, regularization=0.1, exploration=0.0)
    policy.exploration = 0.5
    assert "is exploration alone: nothing learned so far" in str(policy.explain(policy.choose(["a"])))
    policy.warm_start(["a", "b"], [1.0, 0.8])

    decision = policy.choose(["c"])
    explanation = policy.explain(decision)
    sentence = str(explanation).splitlines()[0]
    percent = round(100 * (decision.score - decision.mean) / decision.score)
    assert sentence == (
        f"The score {decision.score:.4g} is an estimated reward of {decision.mean:.4g}, mostly from the usual reward, "
        f"and {percent}% exploration."
    )
    policy.exploration = 0.0
    assert str(policy.explain(decision)).splitlines()[0].endswith("usual reward, without exploration.")
    policy.exploration = 0.5
    policy.warm_start(["c"], [-3.0], times=9)
    negative = str(policy.explain(policy.choose(["c"]))).splitlines()[0]
    assert "%" not in negative
    assert negative.endswith("for exploration.")


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_an_explanation_is_a_frame(kind):
    pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    policy = warm(0.7)
    explanation = policy.explain(policy.choose(ROUND), most=2)

    frame = explanation.to_frame(kind)

    names = frame.column_names if kind == "arrow" else list(frame.columns)
    assert names == list(explanation.to_columns())
    assert len(frame) == 4  # two actions, the others, exploration
    assert len(kb.KernelUCB(KERNEL).explain(kb.Decision(0, ROUND[0])).to_frame(kind)) == 1
    with pytest.raises(InvalidParameter, match="'pandas', 'polars' or 'arrow'"):
        explanation.to_frame("excel")


def test_before_any_reward_an_explanation_is_all_exploration():
    policy = kb.KernelUCB(KERNEL)

    explanation = policy.explain(policy.choose(ROUND))

    assert explanation.contributions == ()
    assert explanation.exploration_share == 1.0


# -- guarantees and bad input ---------------------------------------------------------------------------------------


def test_an_assumption_that_visibly_fails_is_reported_once():
    schedule = schedules.IGPUCB(noise_scale=0.5, norm_bound=1.0, failure_probability=0.1, horizon=100)
    policy = kb.KernelUCB(KERNEL, regularization=0.7, exploration=schedule)

    with pytest.warns(GuaranteeVoid):
        policy.choose(ROUND)

    policy.choose(ROUND)


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (np.full((2, 2), np.nan), "finite numbers; row 0"),
        (np.array([[0.0, 1.0], [np.inf, 0.0]]), "finite numbers; row 1"),
        (np.zeros((0, 2)), "at least one context"),
        (np.zeros((2, 0)), "at least one column"),
        (np.zeros(3), "2-d array, one row per action"),
        (np.zeros((2, 2, 2)), "2-d array"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.array([[1j, 0.0]]), "real numbers"),
        ([[1.0, 2.0], [3.0]], "equal length"),
        (np.zeros((3, 5)), "columns"),
        (None, "real numbers"),
    ],
)
def test_contexts_that_cannot_be_compared_are_rejected_and_nothing_changes(contexts, message):
    policy = warm()
    before = policy.choose(ROUND)

    with pytest.raises(kb.errors.InvalidContexts, match=message):
        policy.choose(contexts)

    after = policy.choose(ROUND)
    assert (after.action, after.score, after.round_index) == (before.action, before.score, before.round_index)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"regularization": 0.0}, "regularization must be positive"),
        ({"regularization": -2}, "regularization must be positive"),
        ({"exploration": -1.0}, "exploration"),
        ({"exploration": np.nan}, "exploration"),
        ({"exploration": "much"}, "exploration"),
        ({"ties": "highest"}, "'lowest' row or to one at 'random'"),
        ({"posterior": "magic"}, "posterior must be one of"),
        ({"reward_range": (1.0, 0.0)}, "lower one first"),
        ({"reward_range": (0.0, np.inf)}, "two finite numbers"),
        ({"reward_range": 3}, "two finite numbers"),
    ],
)
def test_bad_parameters_are_rejected(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        kb.KernelUCB(KERNEL, **arguments)


def test_a_warm_start_counts_in_no_round_and_obeys_the_reward_range():
    policy = kb.KernelUCB(KERNEL, reward_range=(0.0, 1.0))

    policy.warm_start(HISTORY, np.full(12, 0.5), times=3)
    with pytest.raises(kb.errors.InvalidReward, match="reward_range"):
        policy.warm_start(HISTORY, np.full(12, 1.5))

    assert policy.round_index == 1
    assert policy.posterior.n_observations == 36


@settings(max_examples=40)
@given(st.permutations(range(8)), st.integers(0, 10**6))
def test_rewards_may_come_in_any_order(order, seed):
    rng = np.random.default_rng(seed)
    points, rewards, queries = rng.uniform(size=(8, 2)), rng.normal(size=8), rng.uniform(size=(5, 2))
    points[5] = points[1]
    straight, mixed = (kb.KernelUCB(KERNEL, regularization=0.05) for _ in range(2))
    decisions = [straight.choose(point[None]) for point in points]

    straight.learn_many(decisions, rewards)
    for place in order:
        mixed.learn(decisions[place], rewards[place])

    left, right = straight.posterior.predict(queries), mixed.posterior.predict(queries)
    assert_allclose(left.mean, right.mean, rtol=1e-8, atol=1e-8)
    assert_allclose(left.width, right.width, rtol=1e-8)


def test_permuting_the_actions_permutes_the_choice():
    policy = warm()
    order = np.random.default_rng(3).permutation(7)

    assert order[policy.choose(ROUND[order]).action] == policy.choose(ROUND).action


def test_parts_of_a_mean_that_overflow_are_rejected():
    """The mean is finite: they cancel."""
    policy = kb.LinUCB(regularization=1.0)
    policy.warm_start([[1.0], [1.001]], [1e308, -1e308])

    with pytest.raises(InvalidReward, match="more than a float64 holds"):
        policy.explain(policy.choose([[3.0]]))
