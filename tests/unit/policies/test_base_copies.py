"""Copies of a policy share kernels, tables and catalogs with it, and then go their own ways."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import kernelbandits as kb
from kernelbandits.errors import UnknownItem
from kernelbandits.kernels import (
    Delta,
    FromCallable,
    FromScikitLearn,
    Gaussian,
    Jaccard,
    LabeledLinear,
    PairProduct,
    Precomputed,
    Rows,
    SimilarityTable,
    Spectrum,
    TfIdf,
    repair,
)

RNG = np.random.default_rng(2)
ROWS = RNG.uniform(size=(8, 2))
WORDS = ["apple", "apply", "pear", "peach", "plum", "plumber", "fig", "figure"]
VALUES = np.exp(-np.linalg.norm(ROWS[:, None] - ROWS[None], axis=2))


def similar(first, second):
    return np.exp(-np.abs(first[:, None, :] - second[None, :, :]).sum(axis=2))


def table(method=None):
    made = (
        SimilarityTable(VALUES[:6, :6], ids=WORDS[:6]) if method is None else repair(VALUES[:6, :6], method=method)[0]
    )
    names = WORDS[6:] if method is None else [6, 7]
    made.add(names, to_known=VALUES[6:, :6], among_new=VALUES[6:, 6:])
    return made


def summed(kernel):
    return 2.0 * kernel + kernel * kernel


KERNELS = {
    "Gaussian": (lambda: Gaussian(length_scale=0.4), ROWS),
    "Delta": (Delta, WORDS),
    "Spectrum": (lambda: Spectrum(n=2), WORDS),
    "TfIdf": (lambda: TfIdf(WORDS), WORDS),
    "Jaccard": (Jaccard, [set(word) for word in WORDS]),
    "Precomputed": (lambda: Precomputed(table()), WORDS),
    "clipped": (lambda: Precomputed(table("clip")), list(range(8))),
    "shifted": (lambda: Precomputed(table("shift")), list(range(8))),
    "sum": (lambda: summed(Precomputed(table())), WORDS),
    "pairs": (lambda: PairProduct(Precomputed(table()), Gaussian(length_scale=0.4)), kb.Pairs("fig", ROWS)),
    "pairs of ids": (lambda: PairProduct(Gaussian(length_scale=0.4), Precomputed(table())), kb.Pairs(ROWS[0], WORDS)),
    "labels": (lambda: LabeledLinear([0]), kb.Pairs("fig", ROWS)),
    "function": (lambda: FromCallable(similar, kind=Rows()), ROWS),
    "scikit-learn": (lambda: FromScikitLearn(RBF(0.4)), ROWS),
}

POLICIES = {
    "KernelUCB": lambda kernel: kb.KernelUCB(kernel, regularization=0.3, exploration=0.5, seed=1),
    "KernelEpochGreedy": lambda kernel: kb.KernelEpochGreedy(kernel, n_actions=8, regularization=0.3, seed=1),
    "SupKernelUCB": lambda kernel: kb.SupKernelUCB(kernel, exploration=0.2),
    "KernelThompson": lambda kernel: kb.KernelThompson(kernel, regularization=0.3, seed=1),
}

COPIES = {
    "copy": lambda policy: policy.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda policy: pickle.loads(pickle.dumps(policy)),
}


def with_pending(policy, actions):
    """Two decisions learned and three that are pending."""
    decisions = [policy.choose(actions) for _ in range(2)]
    for number, decision in enumerate(decisions):
        policy.learn(decision, 0.4 * number)
    pending = []
    for _ in range(3):
        pending.append(policy.choose(actions))
        policy.expect(pending[-1])
        policy.choose(actions)  # derives what belongs to the pending ones
    return pending


def plays(policy, actions, pending):
    """What a policy does from here on."""
    done = []
    for number in range(6):
        decision = policy.choose(actions)
        done.append((decision.action, decision.mean, decision.width, decision.propensity))
        policy.learn(decision, 0.1 * number)
        if number < len(pending):
            policy.learn(pending[number], 0.3)
    return np.array(done, dtype=float)


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_copy_with_pending_decisions_goes_on_like_the_original(policy, kernel, copied):
    make, actions = KERNELS[kernel]
    original = POLICIES[policy](make())
    pending = with_pending(original, actions)

    other = COPIES[copied](original)

    np.testing.assert_allclose(plays(other, actions, pending), plays(original, actions, pending), rtol=1e-12)


@pytest.mark.parametrize("copied", ["copy", "deepcopy"])
@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_added_to_a_table_reaches_all_copies(policy, copied):
    known = table()
    original = POLICIES[policy](Precomputed(known))
    with_pending(original, WORDS)
    other = COPIES[copied](original)

    known.add(["grape"], to_known=np.full((1, 8), 0.1), among_new=[[1.0]])

    for each in (original, other):
        decision = each.choose(["grape", *WORDS[1:]], eligible=np.arange(8) == 0)
        each.learn(decision, 1.0)
        assert decision.context == "grape"


def test_a_pickled_policy_has_a_table_of_its_own():
    known = table()
    original = POLICIES["KernelUCB"](Precomputed(known))
    with_pending(original, WORDS)
    other = pickle.loads(pickle.dumps(original))

    known.add(["grape"], to_known=np.full((1, 8), 0.1), among_new=[[1.0]])

    with pytest.raises(UnknownItem, match="no item 'grape'"):
        other.choose(["grape"])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_copy_of_a_kernel_or_of_its_kind_is_itself(kernel, copied):
    made = KERNELS[kernel][0]()
    kind = made.kind

    assert copied(made) is made
    assert copied(kind) is kind
