"""The factor is read by several threads, with the choices of one thread to the bit."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelbandits as kb
from interrupts import interrupted_everywhere
from kernelbandits import _threads
from kernelbandits._compile import exchange_cell, load_cell, numba
from kernelbandits.kernels import Gaussian, Matern, PairProduct, Spectrum
from kernelbandits.posterior import ExactPosterior
from kernelbandits.selection import _screening_loops as loops
from kernelbandits.selection import screening as module
from kernelbandits.selection._screening_loops import screening_loops
from kernelbandits.selection.screening import ALONE, DualWeights, PanelTable, bound_terms

screening_loops.ensure()


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    kb.set_threads(None)


class Elimination:
    """Arguments of one call of `eliminate`, with the exact answers."""

    def __init__(self, n_known, n_actions, seed=0):
        rng = np.random.default_rng(seed)
        self.posterior = posterior = ExactPosterior(Gaussian(length_scale=0.4), regularization=0.3)
        posterior.observe(
            rng.uniform(size=(n_known, 3)), rng.normal(size=n_known), times=rng.integers(1, 4, size=n_known)
        )
        points = rng.uniform(size=(n_actions, 3))
        self.exact = posterior.predict(points)
        self.whitening, self.table, self.weights = posterior.whitening(), PanelTable(), DualWeights()
        self.panels = self.table.of(self.whitening.factor)
        self.weights.synchronize(self.whitening, self.panels, posterior.regularization, 0.7)
        similarity = posterior.kernel.gram(points, posterior.record.points)
        self.terms = tuple(bound_terms(self.whitening, self.weights, posterior.regularization, 1e-12, 0.7))
        self.columns = np.ascontiguousarray(similarity * self.whitening.roots)
        self.state = np.zeros((n_actions, loops.N_STATE))
        self.state[:, loops.UPPER], self.state[:, loops.PRIOR] = np.inf, 1.0
        self.state[:, loops.OLD_MEAN] = similarity @ self.weights.weights

    def batch(self):
        return self.columns.copy(), self.state.copy(), np.arange(len(self.state))

    def run(self, team, *, n_incumbents=3, loop=None, batch=None, quantile=0.5):
        batch = self.batch() if batch is None else batch
        threshold = float(np.quantile(self.exact.upper(0.7), quantile))
        n_first = len(self.whitening.targets) // 4 // 64 * 64 if n_incumbents else 0
        found = (screening_loops.eliminate if loop is None else loop)(
            self.panels, self.weights.size, batch, self.whitening.targets, self.terms, n_first, n_incumbents, threshold,
            team,
        )  # fmt: skip
        return (*found, *batch)

    def team(self):
        return module._new_team(len(self.whitening.targets))


def are_equal(one, other):
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


@pytest.mark.parametrize("form", ["compiled", "python"])
@pytest.mark.parametrize("n_incumbents", [0, 3])
@pytest.mark.parametrize(("n_known", "n_actions"), [(61, 2), (131, 1), (330, 5)])
def test_parts_give_the_exact_results(n_known, n_actions, n_incumbents, form):
    own = Elimination(n_known, n_actions)
    loop = screening_loops.eliminate if form == "compiled" else loops.eliminate_loop

    threshold, n_done, columns, state, order = own.run(own.team(), n_incumbents=n_incumbents, loop=loop)

    done, scores = order[:n_done], own.exact.upper(0.7)
    assert int(scores.argmax()) in done.tolist()
    assert threshold == pytest.approx(scores.max(), abs=1e-8)
    assert_allclose(state[:n_done, loops.MEAN], own.exact.mean[done], rtol=1e-10)
    assert_allclose(state[:n_done, loops.WIDTH], own.exact.width[done], rtol=1e-10)
    assert_allclose(np.sum(columns[:n_done] ** 2, axis=1), state[:n_done, loops.EXPLAINED], rtol=1e-12)


@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("n_known", "n_actions"), [(700, 2), (1301, 3), (1301, 16), (2100, 33)])
def test_candidates_are_those_of_one_thread_without_parts(n_known, n_actions, quantile):
    own = Elimination(n_known, n_actions)

    alone, together = own.run(ALONE, quantile=quantile), own.run(own.team(), quantile=quantile)

    scores = []
    for _, n_done, _, state, order in (alone, together):
        exact = dict(zip(order[:n_done].tolist(), state[:n_done, loops.MEAN :].tolist(), strict=True))
        scores.append({row: mean + 0.7 * width for row, (mean, width) in exact.items()})
    best = max(scores[0], key=scores[0].get)
    assert best == max(scores[1], key=scores[1].get)
    assert scores[1][best] == pytest.approx(scores[0][best], rel=1e-12)
    assert together[0] == pytest.approx(alone[0], rel=1e-12)


def run_with_helpers(own, n_helpers, pool, *, lead, help_out):
    """Results, and the number of parts that helpers computed."""
    team, batch = own.team(), own.batch()
    helpers = [pool.submit(help_out, own.panels, batch[0], team) for _ in range(n_helpers)]
    found = own.run(team, batch=batch, loop=lead)
    return found, sum(helper.result() for helper in helpers)


@pytest.mark.parametrize("n_helpers", [1, 3, 7])
@pytest.mark.parametrize(("n_known", "n_actions"), [(700, 2), (1301, 16), (2100, 33)])
def test_helpers_change_no_bit(n_known, n_actions, n_helpers):
    own = Elimination(n_known, n_actions)
    alone = own.run(own.team())

    with ThreadPoolExecutor(n_helpers) as pool:
        for _ in range(20):
            together, _ = run_with_helpers(
                own, n_helpers, pool, lead=screening_loops.eliminate, help_out=screening_loops.help
            )
            assert are_equal(alone, together)


def test_helpers_compute_parts():
    """In Python, where threads take turns even if the machine has one processor."""
    own = Elimination(330, 2)
    alone = own.run(own.team(), loop=loops.eliminate_loop)

    with ThreadPoolExecutor(2) as pool:
        together, n_parts = run_with_helpers(own, 2, pool, lead=loops.eliminate_loop, help_out=loops.help_loop)

    assert n_parts > 0
    assert are_equal(alone, together)


def count(cells, n):
    for _ in range(n):
        while True:
            before = load_cell(cells, 1)
            if exchange_cell(cells, 1, before, before + 1):
                break


def test_no_thread_misses_a_change_of_a_cell():
    compiled = numba().njit(nogil=True)(count)
    cells = np.array([7, 0, 7])
    count(cells, 3)
    assert not exchange_cell(cells, 1, 4, 9)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compiled, [cells] * 4, [20_000] * 4))

    assert cells.tolist() == [7, 80_003, 7]


def test_a_part_that_a_helper_does_not_finish_is_repeated():
    own = Elimination(700, 5)
    alone, team = own.run(own.team()), own.team()
    team[0][loops.TAKEN] = 37  # by threads that never run again

    assert are_equal(alone, own.run(team))
    assert team[0][loops.AVAILABLE] == -1


def test_sums_of_parts_are_used():
    """The negative control: a helper that computes something else is noticed."""
    own = Elimination(700, 2)
    alone, team = own.run(own.team()), own.team()
    part = loops.PARTS * (loops.LAG + 1)
    team[0][loops.TAKEN], team[1][:part], team[1][part], team[3][:] = part + 1, 0, 1, 0.0

    wrong = own.run(team)

    assert not np.array_equal(alone[2], wrong[2])


@pytest.mark.parametrize("form", [screening_loops.help, loops.help_loop])
def test_a_helper_computes_what_is_available_and_leaves(form, monkeypatch):
    monkeypatch.setattr(loops, "IDLE", 50)
    own = Elimination(600, 3)
    factor, team, begin = own.whitening.factor, own.team(), 128
    lower = np.zeros((600, 600))
    for panel in factor.panels:
        lower[panel.rows, : panel.start] = panel.left[: panel.n_rows]
        lower[panel.rows, panel.rows] = panel.triangle()
    n_steps = loops.LAG + 2
    team[2][0, :6] = 0, loops.PARTS * 4, begin, 600, 1, 3  # first, last part; rows; places
    team[0][loops.AVAILABLE] = loops.PARTS * n_steps
    team[3][:] = np.nan

    assert form(own.panels, own.columns, team) == loops.PARTS * n_steps

    for step in range(n_steps):
        rows, known = slice(begin + 64 * step, begin + 64 * (step + 1)), begin + 64 * max(0, step - loops.LAG)
        expected = -own.columns[1:3, :known] @ lower[rows, :known].T
        assert_allclose(team[3][:2, rows], expected, rtol=1e-9, atol=1e-12)
    assert np.isnan(team[3][2]).all()
    assert (team[1][: loops.PARTS * n_steps] == 1).all()


@pytest.mark.parametrize("threshold", [-np.inf, np.inf])
def test_other_candidates_than_incumbents_are_eliminated_between_steps(threshold):
    own = Elimination(700, 9)
    columns, state, order = own.batch()

    args = own.panels, own.weights.size, (columns, state, order), own.whitening.targets, own.terms, 0, 0, threshold
    _, n_done = screening_loops.eliminate(*args, own.team())

    n_rows_solved = np.count_nonzero(columns != own.columns[order], axis=1)
    assert n_done == (0 if threshold > 0 else 9)
    assert (n_rows_solved <= loops.STEP).all() if threshold > 0 else (n_rows_solved > 600).all()


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_known", [100, 700, 1301])
def test_weights_are_the_same_with_any_number_of_threads(n_known, n_threads, monkeypatch):
    own, calls = Elimination(n_known, 2), []
    kb.set_threads(n_threads, bytes_per_thread=1)
    together = module._back_together
    monkeypatch.setattr(module, "_back_together", lambda *given: (calls.append(given), together(*given)))

    for _ in range(4):  # alone and together, in turn
        weights = DualWeights()
        weights._paces = own.weights._paces
        weights.synchronize(own.whitening, own.panels, own.posterior.regularization, 0.7)
        assert np.array_equal(weights.weights, own.weights.weights)

    assert len(calls) == (2 if n_threads > 1 else 0)


def decisions(n_threads, kernel, contexts, n_rounds, regularization=0.5, exploration=0.4):
    """Decisions and their estimates, with threads for the smallest factors."""
    kb.set_threads(n_threads, bytes_per_thread=1)
    policy = kb.KernelUCB(kernel, regularization=regularization, exploration=exploration, posterior="exact", seed=0)
    rng, found = np.random.default_rng(1), []
    for t in range(n_rounds):
        decision = policy.choose(contexts(rng))
        policy.learn(decision, float(rng.integers(2)))
        if t == n_rounds // 2:  # counts change, and rows of the factor with them
            policy.unlearn(decision)
        found.append((decision.action, decision.mean, decision.width, decision.score, decision.cost))
    assert found[-1][-1].engine == "screened"
    return found


WORLDS = {
    "two": (Matern(smoothness=0.5, length_scale=1.0), lambda rng: rng.uniform(size=(2, 6))),
    "three of few": (Gaussian(length_scale=0.5), lambda rng: np.round(rng.uniform(size=(3, 2)), 1)),
    "twenty": (Matern(smoothness=0.5, length_scale=1.0), lambda rng: rng.uniform(size=(20, 6))),
    "alike": (Gaussian(length_scale=4.0), lambda rng: rng.uniform(size=(40, 6))),
    "strings": (Spectrum(n=2), lambda rng: ["".join(rng.choice(list("abcdef"), size=6)) for _ in range(5)]),
    "pairs": (
        PairProduct(context=Gaussian(length_scale=0.5), action=Gaussian(length_scale=0.5)),
        lambda rng: kb.Pairs(rng.uniform(size=3), rng.uniform(size=(5, 2))),
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_choices_are_the_same_with_any_number_of_threads(world):
    kernel, contexts = WORLDS[world]
    one = decisions(1, kernel, contexts, 300)

    for n_threads in (2, 4, 8):
        assert decisions(n_threads, kernel, contexts, 300) == one


def test_choices_are_those_of_small_factors(monkeypatch):
    kernel, contexts = WORLDS["twenty"]
    together = decisions(2, kernel, contexts, 200)
    monkeypatch.setattr(module, "pays_off", lambda _: False)
    alone = decisions(1, kernel, contexts, 200)

    assert [one[0] for one in together] == [other[0] for other in alone]
    assert_allclose([one[1:4] for one in together], [other[1:4] for other in alone], rtol=1e-9, atol=1e-11)


def test_several_policies_share_the_threads():
    kernel, contexts = WORLDS["twenty"]
    one = decisions(1, kernel, contexts, 150)
    kb.set_threads(4, bytes_per_thread=1)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: decisions(4, kernel, contexts, 150), range(4)))

    assert found == [one] * 4


def some_policy(n_rounds=40):
    kb.set_threads(3, bytes_per_thread=1)
    policy = kb.KernelUCB(Gaussian(length_scale=0.5), regularization=0.5, exploration=0.5, posterior="exact", seed=0)
    rng = np.random.default_rng(2)
    for _ in range(n_rounds):
        policy.learn(policy.choose(rng.uniform(size=(3, 2))), float(rng.uniform()))
    return policy, rng.uniform(size=(5, 2))


def test_an_interrupted_choice_changes_nothing():
    policy, contexts = some_policy()
    expected, n_interrupts = policy.copy().choose(contexts), 0

    for interrupted in interrupted_everywhere(policy.copy, lambda policy: policy.choose(contexts), step=3):
        decision, n_interrupts = interrupted.choose(contexts), n_interrupts + 1
        assert (decision.action, decision.round_index) == (expected.action, expected.round_index)
        assert_allclose([decision.mean, decision.width], [expected.mean, expected.width], rtol=1e-9)

    assert n_interrupts > 20


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers on this system")
def test_signals_leave_the_state_before_or_after_a_round():
    kb.set_threads(3, bytes_per_thread=1)
    kernel, rng = Gaussian(length_scale=0.5), np.random.default_rng(3)
    policy = kb.KernelUCB(kernel, regularization=0.5, exploration=0.5, posterior="exact", seed=0)
    known = rng.uniform(size=(400, 4))
    policy.warm_start(known, np.zeros(400))
    plain, is_armed, n_interrupts = ExactPosterior(kernel, regularization=0.5), [False], 0
    plain.observe(known, np.zeros(400))

    def interrupt(*_):
        if is_armed[0]:
            is_armed[0] = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(150):
            contexts, decision, n_learned = rng.uniform(size=(3, 4)), None, policy.posterior.n_observations
            try:
                is_armed[0] = True
                signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(1e-5, 1e-3)))
                decision = policy.choose(contexts)
                policy.learn(decision, 0.7)
                is_armed[0] = False
            except KeyboardInterrupt:
                n_interrupts += 1
            if policy.posterior.n_observations > n_learned:
                plain.observe(decision.context[None], [0.7])
    finally:
        is_armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

    points = rng.uniform(size=(20, 4))
    assert n_interrupts > 5
    assert policy.posterior.n_observations == plain.n_observations
    assert_allclose(policy.posterior.predict(points).mean, plain.predict(points).mean, rtol=1e-9, atol=1e-11)
    assert policy.choose(points).action == int(plain.predict(points).upper(0.5).argmax())


def test_a_helper_that_comes_rounds_later_harms_nothing(monkeypatch):
    """All that it reads exists still, however the factor has changed, and what it writes is never used."""
    late, expected = [], decisions(1, *WORLDS["two"], 300)

    def with_helpers(lead, help_out, *, n_bytes, paces):
        late.append(help_out)
        return lead()

    monkeypatch.setattr(module, "with_helpers", with_helpers)
    found = decisions(2, *WORLDS["two"], 300)
    n_parts = [help_out()[0] for help_out in late]

    assert found == expected
    assert not any(n_parts)  # the pass is over


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    policy, contexts = some_policy()
    expected = policy.copy().choose(contexts)
    sys.stdout.flush()

    child = os.fork()
    if not child:
        try:
            decision = policy.choose(contexts)
            is_same = (decision.action, decision.mean) == (expected.action, expected.mean)
            os._exit(0 if is_same and _threads._shared[0] == os.getpid() else 1)
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_compiled_loops_all_actions_are_scored(monkeypatch):
    policy, contexts = some_policy()
    expected = policy.copy().choose(contexts)
    monkeypatch.setattr(screening_loops, "is_compiled", False)

    decision = policy.choose(contexts)

    assert decision.cost.engine == "exhaustive"
    assert decision.action == expected.action
    assert decision.score == pytest.approx(expected.score, rel=1e-10)


# -- helpers -----------------------------------------------------------------------------------------------------------


def test_the_leader_does_not_wait_for_helpers():
    kb.set_threads(3, bytes_per_thread=1)
    gate, begun = Event(), Event()

    def help_out():
        begun.set()
        gate.wait()

    try:
        assert _threads.with_helpers(lambda: begun.wait(300), help_out, n_bytes=10, paces={}) is True
    finally:
        gate.set()


def test_small_passes_have_no_helpers():
    kb.set_threads(3)
    called = []

    assert _threads.with_helpers(lambda: 7, lambda: called.append(1), n_bytes=100_000, paces={}) == 7
    assert not _threads.pays_off(100_000)
    assert _threads.pays_off(2 * _threads.BYTES_PER_THREAD)
    assert not called


def test_a_helper_that_comes_too_late_does_nothing(monkeypatch):
    kb.set_threads(2, bytes_per_thread=1)
    pool, gate, called = ThreadPoolExecutor(1), Event(), []
    pool.submit(gate.wait)
    monkeypatch.setattr(_threads, "_shared_pool", lambda _: pool)

    assert _threads.with_helpers(lambda: 7, lambda: called.append(1), n_bytes=10, paces={}) == 7

    gate.set()
    pool.shutdown()
    assert not called


def test_without_threads_the_leader_is_alone(monkeypatch):
    kb.set_threads(2, bytes_per_thread=1)

    class Exhausted:
        def submit(self, work):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_threads, "_shared_pool", lambda _: Exhausted())

    assert _threads.with_helpers(lambda: 7, lambda: None, n_bytes=10, paces={}) == 7


def passes(pace, seconds, n):
    """Whether each of n passes had helpers; `seconds` are those without and with them."""
    made = []
    for _ in range(n):
        made.append(pace.next_has_helpers())
        pace.record(seconds[made[-1]], has_helpers=made[-1])
    return made


def test_helpers_that_pay_off_are_used_in_almost_all_passes():
    made = passes(_threads.Pace(8), (6.0, 1.0), 2048)

    assert made[: _threads.TRIALS] == [True, False] * (_threads.TRIALS // 2)
    n_alone = made[_threads.TRIALS :].count(False)
    assert 0 < n_alone * 5.0 < 1.1 * _threads.PROBE_COST * 2048


def test_helpers_that_do_not_pay_off_are_tried_now_and_then():
    pace = _threads.Pace(2)

    assert 10 < passes(pace, (1.0, 2.0), 1024).count(True) < 30
    assert passes(pace, (3.0, 1.0), 2048).count(True) > 1500  # the machine has become idle
    assert passes(pace, (1.0, 2.0), 4096).count(True) < 1500  # and busy again


def test_ways_that_are_alike_are_compared_often():
    made = passes(_threads.Pace(2), (1.0, 1.05), 800)

    assert 95 <= made.count(True) <= 105


def test_one_interruption_does_not_decide():
    pace = _threads.Pace(8)
    passes(pace, (3.0, 1.0), 20)

    pace.record(1000.0, has_helpers=True)
    pace.record(0.0, has_helpers=True)

    assert passes(pace, (3.0, 1.0), 20).count(True) >= 17


@pytest.mark.parametrize("n_bytes", [0, -5, 1.5, "many"])
def test_the_bytes_per_thread_are_checked(n_bytes):
    with pytest.raises(kb.errors.InvalidParameter, match="bytes_per_thread"):
        kb.set_threads(2, bytes_per_thread=n_bytes)
    assert _threads.threads_for(1_000) == 1
