import numpy as np
import pytest

from kernelbandits.environments import Clustered, DrawnRounds, FixedCatalog, Round
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import simulate, start_world
from kernelbandits.experiments.diagnostics import checkpoints, chosen_contexts, effective_dimensions
from kernelbandits.experiments.policy_spec import PolicySpec
from kernelbandits.experiments.runner import run
from kernelbandits.kernels import Gaussian, Linear, PairProduct, Spectrum
from kernelbandits.policies import KernelUCB, UniformRandom
from kernelbandits.selection import Catalog
from kernelbandits.theory import effective_dimension
from small_studies import KERNEL, Unknowing, rows_of_gram, small_study


@pytest.mark.parametrize("environment", [Clustered(n_actions=6, fixed_actions=True), Clustered(n_actions=6)])
def test_they_are_those_of_the_points_chosen_so_far(environment):
    kernel = Gaussian(length_scale=0.07)
    policy = KernelUCB(kernel, regularization=0.3, exploration=0.5)
    trace = simulate(environment, policy, horizon=60, seed=4, keep_contexts=True)
    rounds = np.array([2, 9, 60])

    found = effective_dimensions(trace, policy, rounds=rounds, horizon=60)

    world = start_world(environment, 4)
    chosen = [world.observe().contexts[action] for action in trace.action]
    assert found == {t: rows_of_gram(kernel, chosen[:t], 60, 0.3) for t in rounds.tolist()}
    assert found[60] > found[2]


def test_a_policy_without_a_posterior_has_none():
    policy = UniformRandom(seed=1)
    trace = simulate(Unknowing(), policy, horizon=5, seed=1, keep_contexts=True)

    assert effective_dimensions(trace, policy, rounds=np.array([5]), horizon=5) == {}


def test_points_that_the_kernel_does_not_take_have_none():
    trace = simulate(Unknowing(), UniformRandom(seed=1), horizon=5, seed=1, keep_contexts=True)

    assert effective_dimensions(trace, KernelUCB(Spectrum(n=2)), rounds=np.array([5]), horizon=5) == {}


def test_a_trace_without_contexts_is_rejected():
    policy = KernelUCB(KERNEL)
    trace = simulate(Unknowing(), policy, horizon=5, seed=1)

    with pytest.raises(InvalidParameter, match="keep_contexts=True"):
        chosen_contexts(trace)


def test_the_environment_runs_once(monkeypatch, tmp_path):
    """Neither a job nor its dimensions starts the environment a second time."""
    starts = []

    class Counting(Unknowing):
        def start(self, rng):
            starts.append(1)
            return super().start(rng)

    study = small_study(environments={"u": Counting()}, policies={"A": PolicySpec(KernelUCB, KERNEL)}, seeds=1)
    table = run(study, tmp_path, workers=1).table()

    assert len(starts) == 1
    assert not np.isnan(table["effective_dimension"].to_numpy()).all()


def test_a_catalog_has_those_of_its_chosen_items():
    kernel, items = Gaussian(length_scale=0.3), np.random.default_rng(2).random((40, 2))
    environment = FixedCatalog(items, np.sin(7.0 * items.sum(axis=1)))
    policy = KernelUCB(kernel, regularization=0.2, exploration=2.0)
    trace = simulate(environment, policy, horizon=50, seed=4, keep_contexts=True)
    rounds = np.array([2, 9, 50])

    found = effective_dimensions(trace, policy, rounds=rounds, horizon=50)

    grams = {t: kernel.gram(items[trace.action[:t]]) for t in rounds.tolist()}
    assert found == {t: effective_dimension(gram, regularization=0.2, horizon=50) for t, gram in grams.items()}
    assert found[50] > found[2]


class PartsOfACatalog:
    """Shows other items of one catalog in every round, joined with a context if the argument says so."""

    reward_range = None

    def __init__(self, items, *, is_joined=False):
        self.items, self.is_joined = items, is_joined
        self.catalog = Catalog(items)

    def start(self, rng):
        return DrawnRounds(self._rounds(rng))

    def _rounds(self, rng):
        while True:
            view = self.catalog.only(rng.choice(len(self.items), size=5, replace=False))
            yield Round(view.given(rng.random(2)) if self.is_joined else view), rng.random(5)

    def describe(self):
        return {"class": "PartsOfACatalog"}


def test_parts_of_a_catalog_name_actions_by_their_rows_in_the_whole():
    kernel, items = Gaussian(length_scale=0.2), np.random.default_rng(3).random((30, 2))
    environment, policy = PartsOfACatalog(items), KernelUCB(kernel, regularization=0.4)
    trace = simulate(environment, policy, horizon=20, seed=1, keep_contexts=True)

    found = effective_dimensions(trace, policy, rounds=np.array([3, 20]), horizon=20)

    assert found == {t: rows_of_gram(kernel, items[trace.action[:t]], 20, 0.4) for t in (3, 20)}


def test_items_joined_with_a_context_are_pairs():
    parts, items = Gaussian(length_scale=0.3), np.random.default_rng(3).random((30, 2))
    environment = PartsOfACatalog(items, is_joined=True)
    policy = KernelUCB(PairProduct(parts, parts), regularization=0.4)
    trace = simulate(environment, policy, horizon=20, seed=1, keep_contexts=True)

    found = effective_dimensions(trace, policy, rounds=np.array([3, 20]), horizon=20)

    world = start_world(environment, 1)
    contexts = np.array([world.observe().contexts.context for _ in trace.action])
    gram = parts.gram(contexts) * parts.gram(items[trace.action])
    assert found == {t: effective_dimension(gram[:t, :t], regularization=0.4, horizon=20) for t in (3, 20)}


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(length_scale=0.4)])
def test_more_points_than_a_whole_spectrum_takes_are_decided_by_leading_directions(kernel):
    environment = Clustered(n_actions=6)
    policy = KernelUCB(kernel, regularization=0.1)
    trace = simulate(environment, policy, horizon=60, seed=4, keep_contexts=True)
    rounds = np.array([2, 4, 25, 60])

    found = effective_dimensions(trace, policy, rounds=rounds, horizon=60, most_points=20)

    world = start_world(environment, 4)
    chosen = [world.observe().contexts[action] for action in trace.action]
    assert found == {t: rows_of_gram(kernel, chosen[:t], 60, 0.1) for t in rounds.tolist()}


def test_it_stops_where_the_directions_that_can_be_paid_for_do_not_settle_it():
    policy = KernelUCB(KERNEL, regularization=1e-3)

    trace = simulate(Unknowing(), UniformRandom(seed=1), horizon=7, seed=1, keep_contexts=True)

    found = effective_dimensions(trace, policy, rounds=np.array([2, 4, 5, 7]), horizon=7, most_points=4)

    assert set(found) == {2, 4}


@pytest.mark.parametrize("rounds", [np.arange(1, 5001), np.arange(7, 5000, 7), np.array([1, 2]), np.array([1])])
def test_checkpoints_are_few_and_end_with_the_last(rounds):
    found = checkpoints(rounds)

    assert len(found) <= 12
    assert np.all(np.isin(found, rounds))
    assert np.all(found >= 2)
    assert rounds[-1] == 1 or found[-1] == rounds[-1]
