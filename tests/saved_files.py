"""Saved policies of every family, hostile changes of their files, and what comes of loading one.

A changed file has a right checksum, so that nothing but the checks behind it can refuse the change.
"""

import hashlib
import json
import multiprocessing
import re
import sys
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.sparse import csr_array

import kernelbandits as kb
from kernelbandits._files import DIGEST_SIZE, DTYPES, MAGIC, PREFIX, VERSION
from kernelbandits.errors import KernelBanditError, SavedFileError
from kernelbandits.kernels import (
    Delta,
    Gaussian,
    Jaccard,
    Linear,
    PairProduct,
    Precomputed,
    QuadratureFourier,
    RandomFourier,
    SimilarityTable,
    Spectrum,
    TfIdf,
    repair,
)
from kernelbandits.policies.experts import StumpClass, UniformExpert, constant_experts, linear_experts, ridge_experts
from kernelbandits.posterior import Refit, posterior_factory
from kernelbandits.theory import exploration as schedules

N_ACTIONS = 5
PATIENCE = 300.0
"""Seconds after which a file hangs its reader; the slowest that does not takes well below one."""

ROOM = 1 << 30
"""Bytes that a reader may have on top of what it started with; no file here is longer than 100 kB."""

WORDS = ["red", "green", "blue", "greenish", "reddish"]
TEXTS = ["/news/politics", "/news/sport", "/shop/shoes", "/shop/hats", "/about"]
IDS = ["a", "b", "c", 4, 5]
FIXED = np.random.default_rng(0).uniform(size=(N_ACTIONS, 3))


def rows(rng):
    return rng.normal(size=(N_ACTIONS, 3))


def short_rows(rng):
    return rng.uniform(-0.5, 0.5, size=(N_ACTIONS, 3))


def sparse_rows(rng):
    return csr_array(rng.normal(size=(N_ACTIONS, 30)) * (rng.random((N_ACTIONS, 30)) < 0.2))


def sets(rng):
    return [set(rng.integers(0, 9, size=4).tolist()) | {"x"} for _ in range(N_ACTIONS)]


def pairs(rng):
    return kb.Pairs(rng.normal(size=2), [f"item {row}" for row in range(N_ACTIONS)])


def box(_rng):
    return kb.Box([-1.0, -1.0], [1.0, 1.0])


def fixed_rows(_rng):
    return FIXED


def words(_rng):
    return WORDS


def texts(_rng):
    return TEXTS


def ids(_rng):
    return IDS


def over_a_table():
    points = np.random.default_rng(0).normal(size=(N_ACTIONS, 3))
    return kb.KernelUCB(Precomputed(SimilarityTable(Gaussian(length_scale=1.0).gram(points), ids=IDS)))


def over_a_repaired_table(method):
    similarities = np.random.default_rng(0).uniform(-1.0, 1.0, size=(N_ACTIONS, N_ACTIONS))
    table = SimilarityTable((similarities + similarities.T) / 2.0 + np.eye(N_ACTIONS), ids=IDS)
    return kb.KernelUCB(Precomputed(repair(table, method=method)[0]))


def ridge():
    rng = np.random.default_rng(7)
    return ridge_experts([Gaussian(length_scale=0.8)], rng.normal(size=(6, 3)), rng.uniform(size=6), regularization=0.5)


def forgetful(name, **options):
    return kb.KernelUCB(Gaussian(length_scale=0.7), posterior=posterior_factory(name, **options))


def merged(model, **options):
    """LinUCB that keeps few contexts, and of older ones sums."""
    policy = kb.LinUCB(model=model, **options)
    policy.posterior.keep = 2
    policy.warm_start(FIXED, np.linspace(0.0, 1.0, N_ACTIONS))
    return policy


MIXTURE = schedules.Mixture(noise_scale=0.5, norm_bound=2.0, failure_probability=0.1)
EXPERTS = [*linear_experts(3, n_experts=3, seed=1), *constant_experts(3), UniformExpert()]

FAMILIES = {
    "rows": (lambda: kb.KernelUCB(2.0 * Gaussian(length_scale=0.7) + 0.1, exploration=MIXTURE), rows),
    "primal": (lambda: kb.KernelUCB(Linear() + 0.5, posterior="primal"), rows),
    "sparse": (lambda: kb.KernelUCB(Linear()), sparse_rows),
    "sparse gaussian": (lambda: kb.KernelUCB(Gaussian(length_scale=2.0)), sparse_rows),
    "strings": (lambda: kb.KernelUCB(Spectrum(n=(1, 2))), words),
    "corpus": (lambda: kb.KernelUCB(TfIdf(TEXTS)), texts),
    "sets": (lambda: kb.KernelUCB(Jaccard()), sets),
    "ids": (lambda: kb.KernelUCB(Delta()), ids),
    "table": (over_a_table, ids),
    "clipped table": (lambda: over_a_repaired_table("clip"), ids),
    "shifted table": (lambda: over_a_repaired_table("shift"), ids),
    "squared table": (lambda: over_a_repaired_table("square"), ids),
    "pairs": (lambda: kb.KernelUCB(PairProduct(Gaussian(length_scale=1.0), Delta())), pairs),
    "LinUCB shared": (lambda: kb.LinUCB(), rows),
    "LinUCB disjoint": (lambda: kb.LinUCB(model="disjoint"), rows),
    "LinUCB hybrid": (lambda: kb.LinUCB(model="hybrid", shared_columns=[0, 2]), rows),
    "LinUCB merged": (lambda: merged("shared"), rows),
    "LinUCB disjoint merged": (lambda: merged("disjoint"), rows),
    "LinUCB hybrid merged": (lambda: merged("hybrid", shared_columns=[0, 2]), rows),
    "GPUCB": (lambda: kb.GPUCB(Gaussian(length_scale=0.7), noise_variance=0.1), rows),
    "CGPUCB": (
        lambda: kb.CGPUCB(context_kernel=Gaussian(length_scale=1.0), action_kernel=Spectrum(n=2), noise_variance=0.1),
        pairs,
    ),
    "OFUL": (lambda: kb.OFUL(noise_scale=0.5, norm_bound=1.5, switching=5.0), rows),
    "ConfidenceBall": (lambda: kb.ConfidenceBall(FIXED, exploration=0.1), fixed_rows),
    "ConfidenceBall of norm 1": (lambda: kb.ConfidenceBall(FIXED, norm=1, exploration=0.1), fixed_rows),
    "PEGE": (lambda: kb.PEGE(FIXED), fixed_rows),
    "UncertaintyEllipsoid": (lambda: kb.UncertaintyEllipsoid(FIXED, exploration=0.3), fixed_rows),
    "SupKernelUCB": (
        lambda: kb.SupKernelUCB(Gaussian(length_scale=0.7), horizon=50, n_actions=N_ACTIONS, exploration=0.5),
        rows,
    ),
    "SupKernelUCB anytime": (
        lambda: kb.SupKernelUCB(Gaussian(length_scale=0.7), norm_bound=1.0, exploration="theory"),
        rows,
    ),
    "SupKernelUCB doubling": (
        lambda: kb.SupKernelUCB(Gaussian(length_scale=0.7), exploration=0.5, unknown_horizon="doubling"),
        rows,
    ),
    "SupLinRel": (lambda: kb.SupLinRel(horizon=50, n_actions=N_ACTIONS, exploration=0.5), short_rows),
    "SupLinUCB": (lambda: kb.SupLinUCB(horizon=50, n_actions=N_ACTIONS, exploration=0.5), rows),
    "PhasedElimination": (lambda: kb.PhasedElimination(Gaussian(length_scale=0.4), FIXED, exploration=0.3), fixed_rows),
    "GridGP": (lambda: kb.GridGP(kb.kernels.Linear(), FIXED, horizon=60), fixed_rows),
    "KernelThompson": (lambda: kb.KernelThompson(Gaussian(length_scale=0.7), propensity_draws=5, seed=5), rows),
    "Thompson features": (
        lambda: kb.KernelThompson(
            Gaussian(length_scale=0.7), draws="features", n_features=20, propensity_draws=5, seed=5
        ),
        rows,
    ),
    "KernelSquareCB": (lambda: kb.KernelSquareCB(Gaussian(length_scale=0.7), seed=5), rows),
    "EXP4": (lambda: kb.EXP4([*EXPERTS, *ridge()], horizon=90, seed=3), rows),
    "EXP4P": (lambda: kb.EXP4P(EXPERTS, horizon=90, failure_probability=0.1, seed=3), rows),
    "EpochGreedy": (lambda: kb.EpochGreedy(EXPERTS, n_actions=N_ACTIONS, seed=3), rows),
    "KernelEpochGreedy": (lambda: kb.KernelEpochGreedy(Gaussian(length_scale=0.7), n_actions=N_ACTIONS, seed=3), rows),
    "VE": (lambda: kb.VE(StumpClass([0, 2], n_actions=3), horizon=60, vc_dimension=2, uniform_rounds=3, seed=3), rows),
    "PACBayes": (lambda: kb.PACBayes(np.eye(3), n_actions=7, seed=3), rows),
    "PolicyElimination": (
        lambda: kb.PolicyElimination(EXPERTS[:-1], n_actions=N_ACTIONS, failure_probability=0.1, seed=2),
        rows,
    ),
    "RandomizedUCB": (
        lambda: kb.RandomizedUCB(EXPERTS[:-1], n_actions=N_ACTIONS, failure_probability=0.9, seed=2),
        rows,
    ),
    "ILOVETOCONBANDITS": (
        lambda: kb.ILOVETOCONBANDITS(EXPERTS[:-1], n_actions=N_ACTIONS, failure_probability=0.9, seed=2),
        rows,
    ),
    "UCB1": (lambda: kb.UCB1(), ids),
    "KLUCB": (lambda: kb.KLUCB(), ids),
    "UniformRandom": (lambda: kb.UniformRandom(seed=1), rows),
    "ContextualZooming": (lambda: kb.ContextualZooming(Gaussian(length_scale=0.7), horizon=60), rows),
    "Mixed PEGE": (lambda: kb.Mixed(kb.PEGE(FIXED), epsilon=0.2, seed=2), fixed_rows),
    "Mixed": (
        lambda: kb.Mixed(kb.KernelUCB(Gaussian(length_scale=0.7)), epsilon=0.1, seed=2),
        rows,
    ),
    "windowed": (lambda: forgetful("windowed", length=4), rows),
    "forgetting": (lambda: forgetful("forgetting", rate=0.9), rows),
    "budget": (lambda: kb.KernelUCB(Gaussian(length_scale=0.7), budget=4), rows),
    "budget, features": (lambda: kb.KernelUCB(Linear(), budget=3), rows),
    "accuracy": (lambda: kb.KernelUCB(Gaussian(length_scale=0.7), accuracy=0.5), rows),
    "refit": (lambda: kb.KernelUCB(Gaussian(length_scale=0.7), refit=Refit(every=3, most=6)), rows),
    "box": (lambda: kb.KernelUCB(Gaussian(length_scale=0.7)), box),
    "quadrature": (
        lambda: kb.KernelUCB(QuadratureFourier(Gaussian(length_scale=4.0), extent=[3.0] * 3, accuracy=0.5)),
        rows,
    ),
    "Thompson logistic": (
        lambda: kb.KernelThompson(Gaussian(length_scale=0.7), posterior="logistic", propensity_draws=5, seed=5),
        rows,
    ),
    "logistic": (lambda: kb.KernelUCB(Gaussian(length_scale=0.7), posterior="logistic"), rows),
    "BKB": (lambda: kb.BKB(Gaussian(length_scale=0.7), seed=1), rows),
    "BBKB": (lambda: kb.BBKB(Gaussian(length_scale=0.7), threshold=4.0, seed=1), rows),
    "EKUCB": (lambda: kb.EKUCB(Gaussian(length_scale=0.7), seed=1), rows),
    "CBBKB": (lambda: kb.CBBKB(Gaussian(length_scale=0.7), threshold=4.0, seed=1), rows),
    "MiniBatchGPUCB": (lambda: kb.MiniBatchGPUCB(Gaussian(length_scale=0.7), noise_variance=0.5), rows),
    "random features": (
        lambda: kb.KernelUCB(RandomFourier(Gaussian(length_scale=0.7), n_columns=3, n_frequencies=3)),
        rows,
    ),
    "Softmax": (lambda: kb.Softmax(kb.KernelUCB(Spectrum(n=2)), temperature=0.3, seed=2), words),
    "Guarded": (lambda: kb.Guarded(kb.KernelUCB(Gaussian(length_scale=0.7)), baseline=0), rows),
    "Paced": (lambda: kb.Paced(kb.KernelUCB(Gaussian(length_scale=0.7)), allowance=9.0, horizon=30, costs=0.5), rows),
    "Paced observed": (
        lambda: kb.Paced(
            kb.LinUCB(),
            allowance=9.0,
            horizon=30,
            costs={row: row / 4.0 for row in range(N_ACTIONS)},
            observed_costs=True,
        ),
        rows,
    ),
}


def saved_file(family):
    """The bytes of a policy that has learned some rounds and waits for the reward of one."""
    make_policy, make_round = FAMILIES[family]
    policy, rng = make_policy(), np.random.default_rng(1)
    for number in range(7):
        policy.learn(policy.choose(make_round(rng), id=f"own {number}" if number % 3 == 0 else None), rng.uniform())
    policy.expect(policy.choose(make_round(rng)))
    with TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy.kb")
        return (Path(folder) / "policy.kb").read_bytes()


# -- changes -----------------------------------------------------------------------------------------------------------


def taken_apart(data):
    _, version, head_size = PREFIX.unpack_from(data)
    start = PREFIX.size + head_size
    return version, json.loads(data[PREFIX.size : start]), bytearray(data[start:-DIGEST_SIZE])


NESTED = re.compile(r'"nested (\d+)"')


def _nested(found):
    return "[" * int(found[1]) + "]" * int(found[1])


def put_together(head, body, version=VERSION):
    """A file with this head, be it text or values, and a right checksum."""
    text = head if isinstance(head, bytes) else NESTED.sub(_nested, json.dumps(head)).encode()
    content = PREFIX.pack(MAGIC, version, len(text)) + text + bytes(body)
    return content + hashlib.sha256(content).digest()


def places(value, found=None):
    """(container, key) of every value in the head, arrays' notes as single values."""
    found = [] if found is None else found
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found.append((value, key))
        if not is_note(part):
            places(part, found)
    return found


def is_note(value):
    return isinstance(value, dict) and value.keys() == {"$array"}


HOSTILE = [
    None, True, False, -1, 0, 1, 2, 3, 1000, 10**7, 2**31, 2**63, 10**30, 10**400, -(2**63), 0.5, -0.5, 1e-300, 1e308,
    -1e308, float("nan"), float("inf"), "", "x", "\ud800", "Gaussian", "KernelUCB", "auto", "9" * 5000, [], {}, [[]],
    [0], [1, 2, 3], {"class": "Linear"}, {"class": "Sum", "parts": []}, {"": 0}, {"row": [0.5]}, {"set": [[1]]},
    {"sparse_row": [[0, 2**40], [1.0, 1.0], 2**41]}, {"sparse_row": [[-5], [1.0], 30]}, {"pair": [1]},
    {"$array": ["<f8", [0], 0]}, {"$array": ["<f8", [1 << 40], 0]}, {"$array": []},
]  # fmt: skip


class Untouchable(Exception):
    """There is nothing in the file that such a change could be made to."""


def change_value(rng, head, body):
    owner, key = pick(rng, places(head))
    owner[key] = f"nested {pick(rng, [3, 90, 500, 5000])}" if rng.random() < 0.05 else pick(rng, HOSTILE)
    return head, body


def change_number(rng, head, body):
    numbers = [(o, k) for o, k in places(head) if type(o[k]) in (int, float) and abs(o[k]) < 1e290]
    owner, key = pick(rng, numbers)
    old = owner[key]
    owner[key] = pick(rng, [-old, old + 1, old - 1, 10 * old, old * 10**6, old * 10**12, old / 2, str(old), 0])
    return head, body


def remove(rng, head, body):
    owner, key = pick(rng, places(head))
    del owner[key]
    return head, body


def add(rng, head, body):
    owner, key = pick(rng, places(head))
    value = pick(rng, HOSTILE)
    if isinstance(owner, dict):
        owner[pick(rng, ["extra", "class", "kind", "seed", "rows", "named", "memo"])] = value
    else:
        owner.insert(key, owner[key] if rng.random() < 0.5 else value)
    return head, body


def move(rng, head, body):
    """A value where another one was."""
    (owner, key), (source, name) = pick(rng, places(head)), pick(rng, places(head))
    owner[key] = json.loads(json.dumps(source[name]))
    return head, body


def notes(head):
    """Notes of arrays that are still as they were written."""
    found = [owner[key]["$array"] for owner, key in places(head) if is_note(owner[key])]
    return [note for note in found if len(note) == 3 and isinstance(note[1], list) and note[0] in DTYPES]


def change_note(rng, head, body):
    """Another dtype, shape or offset."""
    note = pick(rng, notes(head))
    _, shape, offset = note
    size = int(np.prod(shape, dtype=object)) if shape else 1
    shapes = [
        [size], [size, 1], [1, size], [*shape, 1], shape[::-1], [], [-1], [size + 1], [max(size - 1, 0)], [0],
        [0, 10**9], [10**9, 0], [2**62, 4], [2**32, 2**32], [float(size)], [True], ["x"], size, None, [1] * 70,
    ]  # fmt: skip
    which = rng.integers(3)
    if which == 0:
        note[0] = pick(rng, ["<f8", "<i8", "|u1", ">f8", "|O", "<U8", "<f4", 8, None])
    elif which == 1:
        note[1] = pick(rng, shapes)
    else:
        note[2] = pick(rng, [0, 8, offset + 8, offset - 8, -8, len(body), len(body) + 8, 2**63, 0.0, "0", None])
    return head, body


def lie_over(rng, head, body):
    """Two arrays over the same bytes, as they are or with the other's shape."""
    first, second = pick(rng, notes(head)), pick(rng, notes(head))
    first[2] = second[2]
    if rng.random() < 0.5:
        first[:] = second
    return head, body


def content(body, dtype, count, offset):
    return np.frombuffer(body, dtype=dtype, count=count, offset=offset).copy()


def change_content(rng, head, body):
    """Other numbers in an array."""
    dtype, shape, offset = pick(rng, [note for note in notes(head) if 0 not in note[1]])
    if dtype not in EXTREMES or not all(type(size) is int for size in (*shape, offset)):
        raise Untouchable  # after an earlier change
    count = int(np.prod(shape, dtype=object))
    if not 0 < count < len(body):
        raise Untouchable
    if not 0 <= offset <= len(body) - count * np.dtype(dtype).itemsize:
        raise Untouchable
    array = content(body, dtype, count, offset)
    place = int(rng.integers(count))
    if dtype == "<f8":
        array[place] = pick(rng, [np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 1e17, *EXTREMES["<f8"], -array[place]])
    elif dtype == "<i8":
        array[place] = pick(rng, [-1, 0, 1, 7, 10**6, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1])
    else:
        array[place] = pick(rng, [0, 1, 2, 48, 128, 255])
    how = rng.random()
    if how < 0.1:
        array[:] = array[place]
    elif how < 0.2:
        array[:] = np.frombuffer(rng.bytes(array.nbytes), dtype=dtype)
    elif how < 0.3:
        rng.shuffle(array)
    body[offset : offset + array.nbytes] = array.tobytes()
    return head, body


def change_text(rng, head, body):
    """A head that is not JSON, or not of the kind that is written."""
    text = json.dumps(head)
    texts = [
        text[: len(text) // 2], "[" * 100_000, '{"a":' * 100_000, "null", "[]", '"x"', "1e999", text + "x", "",
        text.replace("0.", "NaN", 1), text.replace(": 1", ": 1e999", 1), text.replace('"', "", 1),
        "[" * 200 + "]" * 200,
    ]  # fmt: skip
    return pick(rng, texts).encode(), body


def change_length(rng, head, body):
    """Arrays that lie past the end, or bytes that no array has."""
    size = int(rng.integers(1, 64))
    return head, body[:-size] if rng.random() < 0.5 else body + bytes(size)


CHANGES = {
    change_value: 6,
    change_number: 3,
    remove: 2,
    add: 2,
    move: 2,
    change_note: 4,
    lie_over: 1,
    change_content: 6,
    change_text: 0.2,
    change_length: 0.3,
}


def pick(rng, options):
    if not options:
        raise Untouchable
    return options[int(rng.integers(len(options)))]


EXTREMES = {"<f8": [1e308, -1e308, 5e-324], "<i8": [2**62, -(2**63)], "|u1": [255]}
"""Finite values that arithmetic with others may not survive."""


def extreme_files(data):
    """The file with every array, in turn, full of one extreme value; then with one in its first or last place.

    Gives functions that make these files.
    """
    _, head, body = taken_apart(data)

    def filled(note, value, where):
        dtype, shape, offset = note
        array = content(body, dtype, int(np.prod(shape, dtype=object)), offset)
        array[where] = value
        return put_together(head, body[:offset] + array.tobytes() + body[offset + array.nbytes :])

    return [
        partial(filled, note, value, where)
        for where in (slice(None), 0, -1)
        for note in notes(head)
        if 0 not in note[1]
        for value in EXTREMES[note[0]]
    ]


def extreme_file(data, _rng, turn):
    """One of the `extreme_files` after the other; None where there are no more."""
    files = extreme_files(data)
    return files[turn]() if turn < len(files) else None


def same_file(data, _rng, _turn):
    """The file as it is."""
    return data


def changed_file(data, rng, _turn):
    """The file with one change, or two, and a right checksum."""
    _, head, body = taken_apart(data)
    weights = np.array(list(CHANGES.values()))
    for _ in range(1 + int(rng.random() < 0.2)):
        change = list(CHANGES)[rng.choice(len(weights), p=weights / weights.sum())]
        try:
            head, body = change(rng, head, body)
        except Untouchable:
            continue
        if isinstance(head, bytes):
            break
    return put_together(head, body)


# -- outcomes ----------------------------------------------------------------------------------------------------------


def outcome_of(data, family, folder):
    """What comes of loading and using such a file: one word, and where an error came from."""
    path = Path(folder) / "policy.kb"
    path.write_bytes(data)
    try:
        policy = kb.load(path)
    except SavedFileError:
        return "refused", ""
    except Exception as error:
        return "raw error", _described(error)
    try:
        _use(policy, family, path)
    except KernelBanditError:
        return "declined", ""
    except Exception as error:
        return "raw error in use", _described(error)
    return "works", ""


def _use(policy, family, path):
    rng = np.random.default_rng(2)
    contexts = FAMILIES[family][1](rng)
    decision = policy.choose(contexts)
    assert 0 <= decision.action < N_ACTIONS
    is_listed = not isinstance(contexts, kb.Box)
    assert 0.0 < decision.propensity <= 1.0 + 1e-9 or not is_listed
    assert not np.isinf([decision.mean, decision.width, decision.score]).any()
    policy.learn(decision, 0.5)
    for pending in list(policy.pending.values()):
        policy.learn(pending, 0.5)
    if is_listed:
        probabilities = policy.probabilities(contexts)
        assert (probabilities >= 0.0).all()
        assert abs(probabilities.sum() - 1.0) < 1e-6
    policy.save(path)


def _described(error):
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "kernelbandits" in frame.filename]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[:-5:-1])
    return f"{type(error).__name__}: {error!s:.100} [{where}]"


def run_cases(numbers, seed, setup, change, results):
    """In a process of its own: the outcome of each case, as it is known."""
    warnings.simplefilter("ignore")
    _limit_memory()
    if setup is not None:
        setup()
    files = {family: saved_file(family) for family in FAMILIES}
    results.send(None)  # ready
    with TemporaryDirectory() as folder:
        for number in numbers:
            rng = np.random.default_rng([seed, number])
            family = list(FAMILIES)[number % len(FAMILIES)]
            data = change(files[family], rng, number // len(FAMILIES))
            results.send((number, family, *(("nothing", "") if data is None else outcome_of(data, family, folder))))
    results.close()


def _limit_memory():
    """No more memory than there is now and some room, where the system can say so."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):
        return


def outcomes(n_cases, seed=0, setup=None, change=changed_file, patience=PATIENCE):
    """Count of each outcome, and all that are not clean: crashes and hangs end their process, and only it.

    `setup` is called in the process that reads the files; `change` makes the file of a case, or None.
    """
    counts, bad, first = Counter(), [], 0
    context = multiprocessing.get_context("spawn")
    while first < n_cases:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=run_cases, args=(range(first, n_cases), seed, setup, change, sender))
        process.start()
        sender.close()
        ending = "crash"
        receiver.recv()  # it is ready, which takes as long as it takes
        try:
            while True:
                if not receiver.poll(patience):
                    ending = "hang"
                    break
                number, family, word, detail = receiver.recv()
                counts[word] += 1
                first = number + 1
                if word.startswith("raw"):
                    bad.append((number, family, word, detail))
        except EOFError:
            pass
        if ending == "hang":
            process.kill()
        process.join()
        receiver.close()
        if first < n_cases:
            counts[ending] += 1
            bad.append((first, list(FAMILIES)[first % len(FAMILIES)], ending, f"exit code {process.exitcode}"))
            first += 1
    return counts, bad


if __name__ == "__main__":
    counted, raw = outcomes(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for case in raw:
        print(*case)
    print(counted)
