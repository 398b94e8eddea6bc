import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from definitions import ridge
from kernelbandits import Catalog, Pairs
from kernelbandits.errors import InvalidParameter
from kernelbandits.evaluation import DirectMethod, Log, reward_models
from kernelbandits.kernels import Delta, Gaussian, Linear, PairProduct, Spectrum
from kernelbandits.policies import KernelUCB, Softmax, UniformRandom
from logs import slow_direct, string_log


@pytest.mark.parametrize("kernel", [Spectrum(n=2), Delta()])
def test_it_is_its_definition_over_changing_sets_of_strings(kernel):
    log, policy = string_log(), Softmax(KernelUCB(Spectrum(n=2)), temperature=0.3, seed=0)
    logged = [log.rounds[t][log.actions[t]] for t in range(len(log))]

    result = DirectMethod(kernel, 0.7).estimate(log, policy)

    values = slow_direct(log, policy, lambda words: ridge(kernel, logged, log.rewards, words, 0.7)[0])
    assert_allclose(result.value, values.mean(), rtol=1e-9)
    assert result.standard_error > values.std(ddof=1) / np.sqrt(len(log))  # test_model_errors.py has what it is


@pytest.mark.parametrize("posterior", ["auto", "exact", "primal"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_and_sparse_rows_give_the_same(posterior, is_sparse):
    rng = np.random.default_rng(3)
    rounds = [rng.normal(size=(rng.integers(1, 6), 3)) for _ in range(40)]
    actions = [int(rng.integers(len(rows))) for rows in rounds]
    rewards = rng.normal(size=40)
    logged = np.array([rows[action] for rows, action in zip(rounds, actions, strict=True)])
    log = Log([csr_array(rows) for rows in rounds] if is_sparse else rounds, actions, [0.5] * 40, rewards)

    result = DirectMethod(Linear(), 0.3, posterior=posterior).estimate(log, UniformRandom())

    means = [ridge(Linear(), logged, rewards, rows, 0.3)[0].mean() for rows in rounds]
    assert_allclose(result.value, np.mean(means), rtol=1e-7)


def test_pairs_and_catalogs_are_understood():
    rng = np.random.default_rng(4)
    contexts, items = rng.normal(size=(30, 2)), ["x", "y", "z"]
    kernel = PairProduct(Gaussian(length_scale=1.0), Delta())
    catalog = Catalog(items)
    actions, rewards = rng.integers(3, size=30), rng.normal(size=30)
    pairs = Log([Pairs(context, items) for context in contexts], actions, [1 / 3] * 30, rewards)
    views = Log([catalog.given(context) for context in contexts], actions, [1 / 3] * 30, rewards)

    model = DirectMethod(kernel, 0.4)
    values = [model.estimate(log, UniformRandom()).value for log in (pairs, views)]

    gram = np.exp(-np.sum((contexts[:, None] - contexts[None]) ** 2, axis=2) / 2)
    weights = np.linalg.solve(gram * (actions[:, None] == actions) + 0.4 * np.eye(30), rewards)
    means = [[sum(gram[t] * weights * (actions == a)) for a in range(3)] for t in range(30)]
    assert_allclose(values, np.mean(means))


def test_the_order_of_the_log_is_the_order_of_learning():
    log = string_log(30)
    seen = []

    class Remembering:
        kernel = Delta()

        def observe(self, points, rewards):
            seen.append((points, rewards))

    reward_models.learn_log(Remembering(), log)

    ((points, rewards),) = seen
    assert points == [log.rounds[t][log.actions[t]] for t in range(30)]
    assert_allclose(rewards, log.rewards)


class Counted(Delta):
    """Counts the similarities that it computes."""

    n_evaluated = 0

    def gram(self, first, second=None):
        similarities = super().gram(first, second)
        Counted.n_evaluated += similarities.size
        return similarities


def test_many_rounds_over_a_few_items_need_few_similarities(monkeypatch):
    rng = np.random.default_rng(5)
    items = list(range(80))
    log = Log([items] * 2_000, rng.integers(80, size=2_000), [1 / 80] * 2_000, rng.random(2_000))
    monkeypatch.setattr(Counted, "n_evaluated", 0)

    result = DirectMethod(Counted(), 1.0).estimate(log, UniformRandom())

    assert 80 * 80 <= Counted.n_evaluated <= 2_000 * 80 * 80 / 10  # separate rounds would compute ten times as many
    sums, counts = np.bincount(log.actions, log.rewards), np.bincount(log.actions)
    assert_allclose(result.value, np.mean(sums / (counts + 1.0)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DirectMethod(Delta(), 0.0), "regularization must be"),
        (lambda: DirectMethod(Delta(), posterior="best"), "The posterior must be one of"),
        (lambda: DirectMethod("word"), "kernel"),
        (lambda: DirectMethod(Delta(), confidence=2), "The confidence has to lie"),
    ],
)
def test_what_cannot_be_used_is_rejected(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()
