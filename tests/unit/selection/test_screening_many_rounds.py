import numpy as np
import pytest

from kernelbandits.kernels import Delta, Gaussian, Spectrum
from kernelbandits.posterior import ExactPosterior
from kernelbandits.selection import tied_for_best, tied_in_each

WORDS = ["tea", "teas", "soap", "soup", "soups", "cocoa", "coca", "a"]


def slow_ties(posterior, rounds, exploration):
    predictions = [posterior.predict(points) for points in rounds]
    return [tied_for_best(one.upper(own)).tolist() for one, own in zip(predictions, exploration, strict=True)]


def ask(posterior, rounds, exploration):
    kind = posterior.kernel.kind
    points = kind.stack(*(kind.check(one) for one in rounds))
    found = tied_in_each(posterior, points, np.array([len(one) for one in rounds]), exploration)
    return [rows.tolist() for rows in found]


@pytest.mark.parametrize("n_learned", [9, 64, 65, 300])
@pytest.mark.parametrize("regularization", [1e-3, 0.7])
def test_they_are_those_of_scoring_all(n_learned, regularization):
    """Points of a coarse grid, so that many are repeated and tied; sets of one to thirty; an exploration each."""
    rng = np.random.default_rng(n_learned)
    posterior = ExactPosterior(3.0 * Gaussian(length_scale=0.4), regularization=regularization)
    learned = np.where(
        rng.random((n_learned, 1)) < 0.3, rng.integers(4, size=(n_learned, 3)) / 3, rng.random((n_learned, 3))
    )
    posterior.observe(learned, rng.normal(size=n_learned))
    rounds = [rng.integers(4, size=(rng.integers(1, 31), 3)) / 3 for _ in range(80)]
    exploration = rng.choice([0.0, 0.2, 5.0], size=80)

    result = ask(posterior, rounds, exploration)

    assert result == slow_ties(posterior, rounds, exploration)
    assert any(len(rows) > 1 for rows in result)


@pytest.mark.parametrize("kernel", [Spectrum(n=2), Delta()])
def test_words_that_were_never_seen_tie(kernel):
    posterior = ExactPosterior(kernel, regularization=0.5)
    posterior.observe(WORDS[:4] * 20, np.random.default_rng(0).normal(size=80))
    rounds = [["xyz", "uvw", "xyz"], WORDS, ["tea"], WORDS[::-1]]

    result = ask(posterior, rounds, np.full(4, 2.0))

    assert result == slow_ties(posterior, rounds, np.full(4, 2.0))
    assert result[0] == [0, 1, 2]


def test_few_widths_are_computed_to_the_end(monkeypatch):
    rng = np.random.default_rng(3)
    posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=0.1)
    posterior.observe(rng.random((400, 2)), rng.normal(size=400))
    rounds = [rng.random((20, 2)) for _ in range(30)]
    solve, entries = type(posterior.whitening().factor).solve, []

    def counting(self, right, **options):
        entries.append((options["until"] ** 2 - options["solved"] ** 2) * right.shape[1])
        return solve(self, right, **options)

    monkeypatch.setattr(type(posterior.whitening().factor), "solve", counting)
    ask(posterior, rounds, np.full(30, 0.1))

    assert sum(entries) < 0.3 * 400**2 * 600


def test_what_overflows_is_left_to_those_who_score_all():
    posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=0.1)
    posterior.observe(np.linspace(0, 1, 20)[:, None], np.full(20, 1.7e308))

    assert tied_in_each(posterior, np.array([[0.1], [0.3]]), np.array([1, 1]), np.ones(2)) is None
