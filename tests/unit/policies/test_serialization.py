import hashlib
import json
import os
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits import _files
from kernelbandits._files import read_container, write_container
from kernelbandits.errors import CannotSave, DamagedFile, ForeignFile, InvalidParameter, NewerFile, SavedFileError
from kernelbandits.kernels import FromCallable, Gaussian, Linear, Precomputed, SimilarityTable, TfIdf
from kernelbandits.policies.base import fingerprint_of
from kernelbandits.policies.experts import constant_experts
from kernelbandits.theory import exploration as schedules


def trained(kernel=None, contexts=None, **arguments):
    policy = kb.KernelUCB(kernel or Gaussian(length_scale=0.5), regularization=0.2, **arguments)
    contexts = np.random.default_rng(0).uniform(size=(8, 2)) if contexts is None else contexts
    for reward in (0.3, 0.9, 0.1, 0.6):
        policy.learn(policy.choose(contexts), reward)
    return policy


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "policy.kb"
    trained().save(path)
    return path.read_bytes()


def test_a_container_gives_back_what_was_written(tmp_path):
    content = {
        "text": "ü",
        "numbers": [1, 2.5, None, True, 2**80],
        "arrays": [
            np.arange(6.0).reshape(2, 3),
            np.zeros((0, 4)),
            np.array([1, 2], dtype=np.int64),
            np.zeros(3, np.uint8),
        ],
    }

    write_container(content, tmp_path / "file")
    opened = read_container(tmp_path / "file")

    assert (opened["text"], opened["numbers"]) == (content["text"], content["numbers"])
    for left, right in zip(opened["arrays"], content["arrays"], strict=True):
        assert left.dtype == right.dtype
        assert left.flags.writeable
        np.testing.assert_array_equal(left, right)


def test_objects_are_never_written(tmp_path):
    with pytest.raises(CannotSave, match="arrays of"):
        write_container({"array": np.array([{}], dtype=object)}, tmp_path / "file")

    assert os.listdir(tmp_path) == []


def test_equal_policies_make_equal_files(tmp_path):
    first, second = kb.KernelUCB(Gaussian(length_scale=0.5), seed=1), kb.KernelUCB(Gaussian(length_scale=0.5), seed=1)
    for policy in (first, second):
        policy.learn(kb.Decision(action=0, context=np.array([0.5, 0.5])), 0.7)

    first.save(tmp_path / "first")
    second.save(tmp_path / "second")

    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@settings(max_examples=150)
@given(st.data())
def test_any_flipped_bit_is_noticed(saved, tmp_path_factory, data):
    place, bit = data.draw(st.integers(0, len(saved) - 1)), data.draw(st.integers(0, 7))
    damaged = bytearray(saved)
    damaged[place] ^= 1 << bit
    path = tmp_path_factory.mktemp("damaged") / "policy.kb"
    path.write_bytes(damaged)

    with pytest.raises(ForeignFile if place < 8 else DamagedFile):
        kb.load(path)


@pytest.mark.parametrize("length", [0, 5, 20, 51, 60, -1, -40])
def test_a_file_cut_short_is_noticed(saved, tmp_path, length):
    (tmp_path / "short").write_bytes(saved[:length])

    with pytest.raises(SavedFileError, match=r"damaged|not a file"):
        kb.load(tmp_path / "short")


def test_something_else_is_not_opened(tmp_path):
    (tmp_path / "picture").write_bytes(b"\x89PNG" + bytes(200))

    with pytest.raises(ForeignFile, match="is not a file that kernelbandits has saved"):
        kb.load(tmp_path / "picture")


def save_in_version(version, path):
    """A sound file that names another version of its format."""
    trained().save(path)
    body = path.read_bytes()[:-32]
    body = body[:8] + struct.pack("<I", version) + body[12:]
    path.write_bytes(body + hashlib.sha256(body).digest())


def test_a_file_of_a_later_version_says_so(tmp_path):
    save_in_version(7, tmp_path / "later")

    with pytest.raises(NewerFile, match="format 7; this version of kernelbandits reads up to 3"):
        kb.load(tmp_path / "later")


def test_a_file_of_a_format_that_was_never_released_says_so(tmp_path):
    save_in_version(1, tmp_path / "earlier")

    with pytest.raises(ForeignFile, match="format 1, of a development version"):
        kb.load(tmp_path / "earlier")


def test_a_head_that_points_outside_the_file_is_rejected(tmp_path):
    head = json.dumps({"policy": {"$array": ["<f8", [10**9], 0]}}).encode()
    body = struct.pack("<8sIQ", b"KBANDITS", _files.VERSION, len(head)) + head
    (tmp_path / "forged").write_bytes(body + hashlib.sha256(body).digest())

    with pytest.raises(DamagedFile, match="cannot be read"):
        kb.load(tmp_path / "forged")


def forged(head, body=b""):
    """A file with this head and a right checksum."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    content = struct.pack("<8sIQ", b"KBANDITS", _files.VERSION, len(text)) + text + body
    return content + hashlib.sha256(content).digest()


@pytest.mark.parametrize(
    ("notes", "reason"),
    [
        ([["<f8", [4], 0], ["<f8", [4], 0]], "do not lie one behind the other"),
        ([["<f8", [4], 0], ["<f8", [3], 24]], "do not lie one behind the other"),
        ([["<f8", [3], 0]], "the file has 32 bytes"),
        ([["<f8", [2**61], 0]], "too large"),
        ([["<f8", [-1, -4], 0]], "of shape"),
        ([["<f8", [4.0], 0]], "of shape"),
        ([["<f8", [4], True]], "of shape"),
        ([["|O", [4], 0]], "an array of '|O'"),
        ([["<f8", [4]]], "instead of dtype, shape and offset"),
    ],
)
def test_arrays_in_a_file_fill_it_and_share_nothing(tmp_path, notes, reason):
    path = tmp_path / "forged"
    path.write_bytes(forged([{"$array": note} for note in notes], bytes(32)))

    with pytest.raises(DamagedFile, match=re.escape(reason)):
        read_container(path)


@pytest.mark.parametrize("depth", [101, 900, 100_000])
def test_a_head_without_end_is_rejected(tmp_path, depth):
    (tmp_path / "forged").write_bytes(forged(b"[" * depth + b"]" * depth))

    with pytest.raises(DamagedFile, match=r"nested|recursion|Stack overflow"):
        read_container(tmp_path / "forged")


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    deep = []
    for _ in range(150):
        deep = [deep]

    for content in (deep, [float("inf")]):
        with pytest.raises(CannotSave, match="could be read again"):
            write_container(content, tmp_path / "file")

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("head", [b"[1e999]", b"[NaN]", b"[Infinity]"])
def test_numbers_that_are_never_written_are_rejected(tmp_path, head):
    (tmp_path / "forged").write_bytes(forged(head))

    with pytest.raises(DamagedFile, match="not finite"):
        read_container(tmp_path / "forged")


def test_a_head_longer_than_its_file_is_rejected(tmp_path):
    content = struct.pack("<8sIQ", b"KBANDITS", _files.VERSION, 2**40) + b"{}"
    (tmp_path / "forged").write_bytes(content + hashlib.sha256(content).digest())

    with pytest.raises(DamagedFile, match="longer than the file"):
        read_container(tmp_path / "forged")


def changed(policy, path, change):
    """The policy's file after a change of its content, with a right checksum."""
    policy.save(path)
    content = read_container(path)
    change(content)
    write_container(content, path)
    return path


CHANGES = {
    "counts of no one": lambda content: content["model"]["posterior"]["counts"].fill(0.0),
    "too few sums": lambda content: content["model"]["posterior"].update(sums=np.zeros(1)),
    "a point twice": lambda content: content["model"]["posterior"]["points.rows"].fill(0.5),
    "a NaN": lambda content: content["model"]["posterior"]["sums"].fill(np.nan),
    "no model": lambda content: content.pop("model"),
    "a list for a model": lambda content: content.update(model=[]),
    "a negative count": lambda content: content["ledger"].update(n_learned=-1),
    "another parameter": lambda content: content["policy"].update(regularization=True),
    "a parameter that is not known": lambda content: content["policy"].update(color="red"),
    "a generator without a state": lambda content: content["generator"].pop("state"),
    "half an id": lambda content: content["ledger"]["rewards"].update(ends=np.array([5])),
    "a decision that was learned": lambda content: content["ledger"]["pending"].append({"id": 3}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_state_that_no_policy_has_is_rejected(tmp_path, change):
    path = changed(trained(), tmp_path / "policy.kb", change)

    with pytest.raises(SavedFileError):
        kb.load(path)


EXPERTS, FIXED = constant_experts(5), np.random.default_rng(0).uniform(size=(5, 2))
EXTREMES = {
    "RandomizedUCB weights": (lambda: kb.RandomizedUCB(EXPERTS, n_actions=5, seed=1), "weights", 1e308),
    "RandomizedUCB less": (lambda: kb.RandomizedUCB(EXPERTS, n_actions=5, seed=1), "weights", 0.1),
    "RandomizedUCB mixing": (lambda: kb.RandomizedUCB(EXPERTS, n_actions=5, seed=1), "mixing", 0.9),
    "RandomizedUCB sums": (lambda: kb.RandomizedUCB(EXPERTS, n_actions=5, seed=1), "sums", 1e149),
    "ILOVETOCONBANDITS sparse": (lambda: kb.ILOVETOCONBANDITS(EXPERTS, n_actions=5, seed=1), "sparse", 1e308),
    "ILOVETOCONBANDITS least": (lambda: kb.ILOVETOCONBANDITS(EXPERTS, n_actions=5, seed=1), "least", 0.11),
    "PACBayes habit": (lambda: kb.PACBayes(np.eye(2), n_actions=5, seed=1), "habit", 1e308),
    "PACBayes sums": (lambda: kb.PACBayes(np.eye(2), n_actions=5, seed=1), "sums", 1e308),
    "EXP4": (lambda: kb.EXP4(EXPERTS, horizon=50, seed=1), "log_weights", -1e308),
    "EXP4P": (lambda: kb.EXP4P(EXPERTS, horizon=50, seed=1), "log_weights", 1e308),
    "EpochGreedy": (lambda: kb.EpochGreedy(EXPERTS, n_actions=5, seed=1), "values", 1e308),
    "GridGP": (lambda: kb.GridGP(kb.kernels.Linear(), FIXED, n_points=3), "sums", 1e308),
    "PEGE": (lambda: kb.PEGE(FIXED), "errors", 1e308),
    "SupKernelUCB": (lambda: kb.SupKernelUCB(Linear(), exploration=1.0, unknown_horizon="doubling"), "epoch", 10**6),
    "ContextualZooming": (lambda: kb.ContextualZooming(Linear(), horizon=50), "balls.numbers", [[1.0], [1.0], [1e308]]),
}


@pytest.mark.parametrize("case", EXTREMES)
def test_numbers_that_fit_and_mean_nothing_are_rejected(tmp_path, case):
    make, name, value = EXTREMES[case]
    policy = make()
    for _ in range(3):
        policy.learn(policy.choose(FIXED), 0.5)

    def change(content):
        *parts, last = name.split(".")
        part = content["model"]
        for inner in parts:
            part = part[inner]
        if isinstance(part[last], np.ndarray):
            part[last][...] = value
        else:
            part[last] = value

    changed(policy, tmp_path / "policy.kb", lambda content: None)
    kb.load(tmp_path / "policy.kb").choose(FIXED)
    changed(policy, tmp_path / "policy.kb", change)
    with pytest.raises(DamagedFile):
        kb.load(tmp_path / "policy.kb")


@pytest.mark.parametrize(
    ("name", "place", "value"), [("indices", 0, 2**40), ("indices", 0, -1), ("indptr", 1, 10**6), ("shape", 1, 1)]
)
def test_sparse_rows_in_a_file_stay_within_themselves(tmp_path, name, place, value):
    rows = csr_array(np.random.default_rng(0).uniform(size=(8, 3)))

    def change(content):
        for arrays, key in ((content["model"]["posterior"], f"points.{name}"), (content["probe"]["points"], name)):
            arrays[key][place] = value

    path = changed(trained(Linear(), rows), tmp_path / "policy.kb", change)

    with pytest.raises(SavedFileError):
        kb.load(path)


def test_wide_sparse_rows_take_memory_for_their_entries_only(tmp_path):
    rows = csr_array((np.ones(4), [0, 5, 2**40, 7], [0, 1, 2, 3, 4]), shape=(4, 2**41))
    policy = trained(Linear(), rows)
    policy.save(tmp_path / "policy.kb")

    assert kb.load(tmp_path / "policy.kb").choose(rows).score == pytest.approx(policy.choose(rows).score)


def test_whatever_else_a_file_raises_is_its_own_error(monkeypatch, tmp_path):
    trained().save(tmp_path / "policy.kb")

    for error, own in ((MemoryError(), SavedFileError), (ZeroDivisionError("x"), DamagedFile)):

        def raises(*_, error=error):
            raise error

        monkeypatch.setattr(kb.KernelUCB, "_restore", raises)
        with pytest.raises(own):
            kb.load(tmp_path / "policy.kb")


def test_a_class_found_in_a_file_is_looked_up_and_never_imported(tmp_path):
    trained().save(tmp_path / "policy.kb")
    content = read_container(tmp_path / "policy.kb")
    content["policy"]["class"] = "os.system"
    write_container(content, tmp_path / "forged")

    with pytest.raises(ForeignFile, match=r"'os\.system', which is not known here"):
        kb.load(tmp_path / "forged")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(monkeypatch, tmp_path):
    path = tmp_path / "policy.kb"
    trained().save(path)
    before = path.read_bytes()

    def full(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        trained(seed=3).save(path)

    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["policy.kb"]


def test_a_missing_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        kb.load(tmp_path / "nowhere")


def shared_letters(first, second):
    return np.array([[len(set(x) & set(z)) for z in second] for x in first], dtype=float)


def other_letters(first, second):
    return 0.5 * shared_letters(first, second)


STRINGS = ["abc", "bcd", "xyz", "axe"]


def test_a_function_is_named_and_has_to_be_handed_over_again(tmp_path):
    kernel = FromCallable(shared_letters, kb.kernels.Strings())
    policy = trained(kernel, STRINGS)
    policy.save(tmp_path / "policy.kb")

    with pytest.raises(ForeignFile, match=r"shared_letters.*load\(path, kernel="):
        kb.load(tmp_path / "policy.kb")
    with pytest.raises(ForeignFile, match="not the one this policy learned with"):
        kb.load(tmp_path / "policy.kb", kernel=FromCallable(other_letters, kb.kernels.Strings()))
    with pytest.raises(ForeignFile, match="does not take the points"):
        kb.load(tmp_path / "policy.kb", kernel=Gaussian(length_scale=1.0))
    opened = kb.load(tmp_path / "policy.kb", kernel=kernel)

    assert opened.choose(STRINGS).score == pytest.approx(policy.choose(STRINGS).score)


def test_a_table_is_stored_whole_and_goes_on_growing(tmp_path):
    points = np.random.default_rng(0).normal(size=(6, 2))
    gram = Gaussian(length_scale=1.0).gram(points)
    table = SimilarityTable(gram[:5, :5], ids=list("abcde"))
    policy = trained(Precomputed(table), list("abcde"))
    policy.save(tmp_path / "policy.kb")

    opened = kb.load(tmp_path / "policy.kb")

    for kernel in (policy.kernel, opened.kernel):
        kernel.table.add(["f"], to_known=gram[5:, :5], among_new=gram[5:, 5:])
    assert opened.choose(list("abcdef")).score == pytest.approx(policy.choose(list("abcdef")).score)


def test_a_table_may_be_shared_instead(tmp_path):
    table = SimilarityTable(np.eye(4) + 0.2, ids=list("abcd"))
    policy = trained(Precomputed(table), list("abcd"))
    policy.save(tmp_path / "policy.kb")

    opened = kb.load(tmp_path / "policy.kb", kernel=table)

    assert opened.kernel.table is table
    assert opened.choose(list("abcd")).action == policy.choose(list("abcd")).action


def test_a_text_kernel_keeps_what_it_knows_of_its_corpus(tmp_path):
    policy = trained(TfIdf(["red boat", "red coat", "blue goat"]), STRINGS)
    policy.save(tmp_path / "policy.kb")

    assert kb.load(tmp_path / "policy.kb").choose(STRINGS).score == pytest.approx(policy.choose(STRINGS).score)


def test_what_is_your_own_cannot_be_saved(tmp_path):
    class Own:
        def __call__(self, situation):
            return 1.0

        def describe(self):
            return {"class": "Own"}

    with pytest.raises(CannotSave, match="exploration schedule of your own"):
        trained(exploration=Own()).save(tmp_path / "policy.kb")
    with pytest.raises(CannotSave, match="posterior made by a function"):
        trained(posterior=lambda k, g: kb.posterior.ExactPosterior(k, regularization=g)).save(tmp_path / "policy.kb")

    assert os.listdir(tmp_path) == []


def test_a_policy_without_a_kernel_takes_none(tmp_path):
    kb.UniformRandom(seed=0).save(tmp_path / "policy.kb")

    with pytest.raises(InvalidParameter, match="has no kernel"):
        kb.load(tmp_path / "policy.kb", kernel=Gaussian(length_scale=1.0))


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_any_generator_of_numpy_goes_on_where_it_was(tmp_path, bits):
    policy = kb.UniformRandom(seed=np.random.Generator(bits(5)))
    policy.choose(STRINGS)
    policy.save(tmp_path / "policy.kb")

    opened = kb.load(tmp_path / "policy.kb")

    assert [policy.choose(STRINGS).action for _ in range(20)] == [opened.choose(STRINGS).action for _ in range(20)]


def test_a_named_schedule_is_kept(tmp_path):
    schedule = schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.05)
    trained(exploration=schedule).save(tmp_path / "policy.kb")

    assert kb.load(tmp_path / "policy.kb").exploration == schedule


def test_thousands_of_decisions_are_the_same_after_saving_in_between(tmp_path):
    """With repeats, pending and amended rewards on the way."""
    rng = np.random.default_rng(1)
    pool = rng.uniform(size=(30, 2))
    policy = kb.KernelUCB(Gaussian(length_scale=0.3), regularization=0.01, exploration=0.2)
    replica = policy.copy()
    for number in range(400):
        contexts = pool[rng.choice(30, size=6, replace=False)]
        left, right = policy.choose(contexts), replica.choose(contexts)
        assert left.action == right.action
        reward = float(rng.normal())
        policy.learn(left, reward)
        replica.learn(right, reward)
        if number % 7 == 0:
            policy.amend(left, was=reward, now=reward + 1)
            replica.amend(right, was=reward, now=reward + 1)
        if number % 50 == 0:
            policy.save(tmp_path / "policy.kb")
            policy = kb.load(tmp_path / "policy.kb")


@pytest.mark.parametrize("policies", [[int], [kb.KernelUCB, "KernelUCB"], [object()]])
def test_policy_classes_given_to_load_are_policies(tmp_path, policies):
    kb.UniformRandom(seed=0).save(tmp_path / "policy.kb")

    with pytest.raises(InvalidParameter, match="inherit from Policy"):
        kb.load(tmp_path / "policy.kb", policies=policies)


@pytest.mark.parametrize("expires", [np.inf, -np.inf, np.nan, "soon"])
def test_a_time_of_expiry_in_a_file_is_a_finite_number(expires):
    policy = kb.KernelUCB(Gaussian(length_scale=1.0))
    policy.expect(policy.choose([[0.0], [1.0]], id="first"), expires=7.0)
    state = policy._ledger.state()
    assert list(state["expires"]) == [7.0]

    with pytest.raises(SavedFileError, match="time at which it expires"):
        policy.copy()._ledger.restore({**state, "expires": [expires]})


@pytest.mark.parametrize(
    "policy",
    [kb.KernelUCB(Gaussian(length_scale=1.0), seed=3), kb.EXP4(constant_experts(2), horizon=10, seed=3)],
    ids=["KernelUCB", "EXP4"],
)
def test_a_description_has_no_seed(policy):
    """Workers that are seeded differently share their policy's description, and may exchange decisions."""
    assert "seed" not in policy.describe()


def test_a_fingerprint_does_not_depend_on_the_order_of_parameters():
    one, other = ({"class": "KernelUCB", "exploration": 1.0}, {"exploration": 1.0, "class": "KernelUCB"})

    assert fingerprint_of(one) == fingerprint_of(other) != fingerprint_of({**one, "exploration": 2.0})
