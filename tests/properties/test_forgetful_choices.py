"""Choices over posteriors that forget are those of scoring every action by the definition, in every round."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelbandits as kb
from kernelbandits.errors import GuaranteeVoid, NotLearnt
from kernelbandits.kernels import Gaussian, Linear, Matern, PairProduct, Precomputed, Spectrum
from kernelbandits.posterior import posterior_factory
from kernelbandits.selection import Catalog, tied_for_best
from kernelbandits.theory import exploration as schedules
from weighted import definition

WORDS = [f"{first} {second}" for first in ("red", "green", "blue") for second in ("boat", "coat", "goat", "ship")]
ITEMS = np.random.default_rng(3).uniform(size=(12, 2))
TABLE = Precomputed(Gaussian(length_scale=0.5).gram(ITEMS), ids=list(range(12)))

WORLDS = {
    "gaussian": (Gaussian(length_scale=0.4), ITEMS),
    "matern": (Matern(smoothness=1.5, length_scale=0.5), ITEMS),
    "linear": (Linear() + 0.2, ITEMS),
    "strings": (Spectrum(n=2), WORDS),
    "table": (TABLE, list(range(12))),
}

FORMS = {
    "windowed": (lambda: posterior_factory("windowed", length=9), lambda age: float(age < 9)),
    "one": (lambda: posterior_factory("windowed", length=1), lambda age: float(age < 1)),
    "forgetting": (lambda: posterior_factory("forgetting", rate=0.8), lambda age: 0.8**age),
    "fast": (lambda: posterior_factory("forgetting", rate=0.1), lambda age: 0.1**age if age < 9 else 0.0),
}


class Watched:
    """A policy beside the list of what it learned."""

    def __init__(self, kernel, form, exploration):
        make, self.weight = FORMS[form]
        self.policy = kb.KernelUCB(kernel, regularization=0.3, exploration=exploration, posterior=make())
        self.kernel, self.exploration = kernel, exploration
        self.past, self.rewards = [], []

    def scores(self, contexts):
        weights = np.array([self.weight(age) for age in range(len(self.past) - 1, -1, -1)])
        counting = np.flatnonzero(weights)
        kind = self.kernel.kind
        past = kind.stack(*(self.past[place] for place in counting)) if len(counting) else None
        rewards = np.array(self.rewards)[counting] if len(counting) else np.zeros(0)
        mean, width, _ = definition(self.kernel, 0.3, past, rewards, weights[counting], kind.check(contexts))
        return mean + self.exploration * width

    def play(self, offered, contexts, rows, rng):
        """Choose among the items of these rows, offered in any form; compare; learn."""
        decision = self.policy.choose(offered)
        scores = self.scores(contexts)
        best = scores[tied_for_best(scores)[0]]
        assert scores[rows.index(decision.item)] >= best - 1e-9 * max(1.0, abs(best))
        assert decision.cost.engine == "exhaustive"
        reward = float(rng.normal())
        self.policy.learn(decision, reward)
        self.past.append(self.policy._point(decision))
        self.rewards.append(reward)


def of(points, rows):
    return points[rows] if isinstance(points, np.ndarray) else [points[row] for row in rows]


@settings(max_examples=15)
@given(
    world=st.sampled_from(sorted(WORLDS)),
    form=st.sampled_from(sorted(FORMS)),
    exploration=st.sampled_from([0.0, 0.5, 2.0]),
    seed=st.integers(0, 10_000),
)
def test_over_a_catalog_whole_and_restricted(world, form, exploration, seed):
    (kernel, points), rng = WORLDS[world], np.random.default_rng(seed)
    catalog, watched = Catalog(points), Watched(kernel, form, exploration)

    for t in range(40):
        rows = list(range(12)) if t % 3 else sorted(rng.choice(12, size=5, replace=False).tolist())
        offered = catalog if t % 3 else catalog.only(rows)
        watched.play(offered, of(points, rows), rows, rng)


@settings(max_examples=10)
@given(form=st.sampled_from(sorted(FORMS)), seed=st.integers(0, 10_000))
def test_over_sets_that_change_every_round(form, seed):
    rng = np.random.default_rng(seed)
    watched = Watched(Gaussian(length_scale=0.4), form, 0.5)

    for _ in range(40):
        contexts = rng.uniform(size=(int(rng.integers(1, 15)), 2))
        watched.play(contexts, contexts, list(range(len(contexts))), rng)


def test_the_comparison_notices_a_policy_that_forgets_nothing():
    rng = np.random.default_rng(0)
    watched = Watched(Gaussian(length_scale=0.4), "windowed", 0.5)
    watched.policy = kb.KernelUCB(Gaussian(length_scale=0.4), regularization=0.3, exploration=0.5, engine="exhaustive")

    def run():
        for _ in range(100):
            contexts = rng.uniform(size=(8, 2))
            watched.play(contexts, contexts, list(range(8)), rng)

    with pytest.raises(AssertionError):
        run()


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("kernel", [Gaussian(length_scale=0.4), Linear()])
def test_playing_many_rounds_is_the_loop_and_no_engine_is_used(form, kernel):
    rng = np.random.default_rng(1)
    rounds, rewards = rng.uniform(size=(60, 9, 2)), rng.normal(size=(60, 9))
    played, looped = (
        kb.KernelUCB(kernel, regularization=0.3, exploration=0.5, posterior=FORMS[form][0]()) for _ in range(2)
    )

    plays = played.play(rounds, rewards)

    assert not played.has_compiled_loop
    for t in range(60):
        decision = looped.choose(rounds[t])
        looped.learn(decision, rewards[t, decision.action])
        assert plays.action[t] == decision.action


def test_pairs_of_context_and_action_work_too():
    kernel = PairProduct(context=Gaussian(length_scale=0.5), action=Spectrum(n=1))
    policy = kb.KernelUCB(kernel, posterior=posterior_factory("forgetting", rate=0.9))
    rng = np.random.default_rng(2)

    for _ in range(30):
        decision = policy.choose(kb.Pairs(rng.uniform(size=2), ["red", "blue", "green"]))
        policy.learn(decision, float(rng.normal()))

    assert policy.posterior.n_observations == 30


@pytest.mark.parametrize("options", [("windowed", {"length": 5}), ("forgetting", {"rate": 0.7})])
def test_a_policy_is_described_saved_and_goes_on_where_it_was(tmp_path, options):
    name, values = options
    rng = np.random.default_rng(4)
    policy = kb.KernelUCB(Gaussian(length_scale=0.4), posterior=posterior_factory(name, **values))
    policy.play(rng.uniform(size=(20, 6, 2)), rng.normal(size=(20, 6)))
    policy.save(tmp_path / "policy.kb")

    loaded = kb.load(tmp_path / "policy.kb")

    assert policy.describe()["posterior"] == {"name": name, **values}
    assert loaded.fingerprint == policy.fingerprint
    rounds, rewards = rng.uniform(size=(40, 6, 2)), rng.normal(size=(40, 6))
    first, second = (one.play(rounds, rewards) for one in (policy, loaded))
    np.testing.assert_array_equal(first.action, second.action)
    np.testing.assert_allclose(first.width, second.width, rtol=1e-9)


def test_a_name_without_options_is_the_name_and_other_options_are_another_policy():
    kernel = Gaussian(length_scale=0.4)

    assert kb.KernelUCB(kernel, posterior="auto").describe()["posterior"] == "auto"
    assert (
        kb.KernelUCB(kernel, posterior=posterior_factory("auto")).fingerprint
        == kb.KernelUCB(kernel, posterior="auto").fingerprint
    )
    assert (
        kb.KernelUCB(kernel, posterior=posterior_factory("windowed", length=5)).fingerprint
        != kb.KernelUCB(kernel, posterior=posterior_factory("windowed", length=6)).fingerprint
    )


@pytest.mark.parametrize("form", ["windowed", "forgetting"])
def test_a_schedule_with_a_claim_warns_once_that_nothing_is_proved(form):
    schedule = schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)
    policy = kb.KernelUCB(Gaussian(length_scale=0.4), exploration=schedule, posterior=FORMS[form][0]())

    with pytest.warns(GuaranteeVoid, match="No interval is proved for a posterior that forgets"):
        policy.choose(ITEMS)

    policy.learn(policy.choose(ITEMS), 1.0)  # a second warning would be an error


def test_a_tuned_number_and_a_posterior_that_remembers_all_warn_of_nothing():
    schedule = schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)

    kb.KernelUCB(Gaussian(length_scale=0.4), exploration=0.5, posterior=FORMS["windowed"][0]()).choose(ITEMS)
    kb.KernelUCB(Gaussian(length_scale=0.4), exploration=schedule).choose(ITEMS)  # warnings are errors


def test_unlearning_what_has_left_the_window_is_rejected_and_changes_nothing():
    policy = kb.KernelUCB(Gaussian(length_scale=0.4), posterior=posterior_factory("windowed", length=2))
    rng = np.random.default_rng(5)
    decisions = [policy.choose(rng.uniform(size=(3, 2))) for _ in range(4)]
    for reward, decision in enumerate(decisions):
        policy.learn(decision, float(reward))

    for call in (lambda: policy.unlearn(decisions[0], 0.0), lambda: policy.amend(decisions[1], was=1.0, now=2.0)):
        with pytest.raises(NotLearnt, match="forgotten since"):
            call()

    assert policy.round_index == 5
    policy.unlearn(decisions[3], 3.0)
    assert policy.posterior.n_observations == 1


def test_an_explanation_shows_how_much_an_observation_counts():
    policy = kb.KernelUCB(Gaussian(length_scale=0.4), posterior=posterior_factory("forgetting", rate=0.5))
    policy.warm_start(ITEMS[[0, 1, 1]], [1.0, 2.0, 2.0])

    explanation = policy.explain(policy.choose(ITEMS))

    assert sorted(part.times for part in explanation.contributions) == [0.25, 1.5]
    assert "1.5" in str(explanation)


def test_slates_and_pending_rewards_work_as_ever():
    policy = kb.KernelUCB(Gaussian(length_scale=0.4), posterior=posterior_factory("windowed", length=4))
    policy.warm_start(ITEMS, np.arange(12.0) / 12)

    slate = policy.choose(ITEMS, k=3, diverse=True)
    policy.expect(slate[0])
    later = policy.choose(ITEMS)
    policy.learn(slate[0], 0.5)

    assert len({decision.action for decision in slate}) == 3
    assert later.width <= policy.posterior.predict(ITEMS[[later.action]]).width[0] + 1.0
    assert policy.posterior.n_observations == 4
