"""Several threads use one policy: every answer is that of some moment, and no reward is lost or learned twice."""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest

from reliability.policies import BOXES, CASES

N_THREADS = 8
ANY = {**CASES, **BOXES}
HANG = 600
"""Seconds after which a process hangs; none takes more than a few."""


@pytest.fixture(autouse=True)
def _switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(act, n_threads=N_THREADS):
    """Call `act(number)` in each of several threads at the same time; errors are raised here."""
    start, errors = Barrier(n_threads), []

    def run(number):
        start.wait()
        try:
            act(number)
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def assert_same_choice(decision, expected):
    assert (decision.action, decision.item, decision.stage) == (expected.action, expected.item, expected.stage)
    np.testing.assert_allclose(
        [decision.mean, decision.width, decision.score, decision.propensity],
        [expected.mean, expected.width, expected.score, expected.propensity],
        rtol=1e-7,
        atol=1e-9,
    )


def check_choosing_alone(case, n_rounds):
    """Choices made at the same time are those made one after the other."""
    policy, serial = case.make(), case.make()
    for decision in case.learn(serial, 9):
        policy.learn(decision, case.reward(decision))
    made = {}

    def choose(thread):
        for t in range(n_rounds):
            made[f"{thread} {t}"] = policy.choose(case.contexts(thread + t), id=f"{thread} {t}")

    in_threads(choose)

    for name, decision in made.items():
        thread, t = map(int, name.split())
        assert_same_choice(decision, serial.choose(case.contexts(thread + t), id=name))
    assert policy.round_index == serial.round_index


def check_choosing_and_learning(case, n_rounds):
    """What happened is what a single thread gets that repeats it in the observed order."""
    policy, made, learned, numbers = case.make(), [], [], count()
    mark_learned = policy._ledger.mark_learned

    def settle_and_tell(decision, reward, number, mark):
        learned.append((decision, reward))
        return mark_learned(decision, reward, number, mark)

    policy._ledger.mark_learned = settle_and_tell

    def play(thread):
        for t in range(n_rounds):
            place = thread + t
            decision = policy.choose(case.contexts(place), id=str(next(numbers)))
            made.append((place, decision))
            policy.learn(decision, case.reward(decision))

    in_threads(play)

    assert policy.round_index == 1 + N_THREADS * n_rounds == 1 + len(learned)
    serial = case.make()
    made.sort(key=lambda entry: entry[1].round_index)
    for decision, reward in learned:
        while made and made[0][1].round_index == serial.round_index:
            place, chosen = made.pop(0)
            assert_same_choice(chosen, serial.choose(case.contexts(place), id=chosen.id))
        serial.learn(decision, reward)
    assert not made
    del policy._ledger.mark_learned
    for t in range(4):
        assert_same_choice(*(one.choose(case.contexts(t), id=f"{t} at the end") for one in (policy, serial)))


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("name", ANY)
def test_choosing_in_threads_gives_the_serial_answers(name):
    check_choosing_alone(ANY[name], n_rounds=4 if name in CASES else 1)


@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("name", ANY)
def test_choosing_and_learning_in_threads_is_a_serial_history(name):
    check_choosing_and_learning(ANY[name], n_rounds=4 if name in CASES else 1)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::kernelbandits.errors.GuaranteeVoid")
@pytest.mark.parametrize("name", ANY)
def test_so_it_is_for_many_rounds(name):
    check_choosing_alone(ANY[name], n_rounds=60)
    check_choosing_and_learning(ANY[name], n_rounds=12)


@pytest.mark.parametrize("name", ["KernelUCB rows", "KernelUCB exact", "KernelUCB windowed", "LinUCB", "LinUCB hybrid"])
def test_a_posterior_answers_for_some_moment_while_its_policy_learns(name):
    case = CASES[name]
    policy, serial = case.make(), case.make()
    decisions = [policy.choose(case.contexts(t)) for t in range(24)]
    point = policy._point(decisions[0])
    moments = [serial.posterior.predict(point).mean[0]]
    for decision in decisions:
        serial.learn(decision, case.reward(decision))
        moments.append(serial.posterior.predict(point).mean[0])
    answers = []

    def act(thread):
        if thread:
            answers.extend(policy.posterior.predict(point).mean[0] for _ in range(24))
        else:
            for decision in decisions:
                policy.learn(decision, case.reward(decision))

    in_threads(act)

    nearest = np.abs(np.array(answers)[:, None] - np.array(moments)).min(axis=1)
    assert nearest.max() < 1e-9
    assert policy.posterior.n_observations == serial.posterior.n_observations


WITHOUT_LOCK = """
import sys
sys.path[:0] = [{tests!r}]
sys.setswitchinterval(1e-6)
from reliability import test_threads
from reliability.policies import CASES
import kernelbandits._transactions

class NoLock:
    def __enter__(self): pass
    def __exit__(self, *_): pass
    def _is_owned(self): return False

if {is_taken_out}:
    class Journal(kernelbandits._transactions.Journal):
        __slots__ = ()
        def __init__(self):
            super().__init__()
            self.lock = NoLock()
    kernelbandits._transactions.Journal = Journal
for _ in range(30 if {is_taken_out} else 1):
    test_threads.check_choosing_and_learning(CASES[{name!r}], n_rounds=40)
print("held")
"""


@pytest.mark.parametrize("name", ["KernelUCB rows", "LinUCB"])
@pytest.mark.parametrize("is_taken_out", [False, True])
def test_without_the_lock_it_fails(name, is_taken_out):
    """The negative control. A process of its own, since it may crash."""
    script = WITHOUT_LOCK.format(tests=str(Path(__file__).parents[1]), name=name, is_taken_out=is_taken_out)

    try:
        ended = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG, check=False
        )
    except subprocess.TimeoutExpired:
        assert is_taken_out, "it hangs"
    else:
        assert (ended.stdout == "held\n" and ended.returncode == 0) is not is_taken_out, ended.stderr


IMPORTS = """
import sys, warnings
import numpy as np
import kernelbandits as kb
kernels = kb.kernels
table = kernels.SimilarityTable(np.eye(4), ids=list("abcd"))
rows = np.random.default_rng(0).uniform(size=(40, 6, 2))
cases = [
    (kb.KernelUCB(kernels.Gaussian(length_scale=0.4)), rows),
    (kb.KernelUCB(kernels.Gaussian(length_scale=0.4)), [kb.Catalog(rows[0])] * 40),
    (kb.KernelUCB(kernels.Spectrum(n=2)), [["ab", "bc", "cd"]] * 10),
    (kb.KernelUCB(table), [list("abcd")] * 10),
    (kb.LinUCB(), rows),
    (kb.LinUCB(model="disjoint"), rows),
    (kb.Mixed(kb.KernelUCB(kernels.Linear()), epsilon=0.2, seed=0), rows),
]
before = set(sys.modules)
for policy, rounds in cases:
    for contexts in rounds:
        decision = policy.choose(contexts)
        policy.learn(decision, 0.5)
    policy.expect(policy.choose(rounds[0]))
    policy.choose(rounds[0])
    policy.unlearn(decision)
compiler = ("numba", "llvmlite", "kernelbandits.")
print(sorted(name for name in set(sys.modules) - before if not name.startswith(compiler)))
"""


def test_calls_import_nothing():
    """A process that is forked while a thread imports would wait for that import for ever."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}

    ended = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=HANG, check=True, env=environment
    )

    assert ended.stdout == "[]\n"
