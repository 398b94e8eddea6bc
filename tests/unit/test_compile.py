"""Loops that are compiled in the background."""

import errno
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelbandits as kb
from kernelbandits import _compile
from kernelbandits._compile import VECTOR, WORK_BEFORE_COMPILE, Loop, Loops, compiled, groups

SIGNATURE = f"float64({VECTOR})"
HANG = 300
"""Seconds after which a process hangs; none takes more than a few."""


def total_loop(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total


def make_loops():
    return Loops(total=Loop(loop=total_loop, signature=f"float64({VECTOR})"))


def test_there_is_no_loop_until_there_was_enough_work():
    loops = make_loops()
    loops.record_work(10)
    assert loops.total is None
    assert not loops.is_compiled

    loops.record_work(WORK_BEFORE_COMPILE)
    loops._thread.join()

    assert loops.is_compiled
    assert loops.total(np.arange(4.0)) == 6.0


def test_there_are_no_other_names():
    with pytest.raises(AttributeError, match="mean"):
        make_loops().mean(np.ones(2))


def test_a_loop_is_compiled_where_nothing_can_be_written(monkeypatch):
    import numba

    whole = numba.njit

    def no_folder(*given, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return whole(*given, **options)

    monkeypatch.setattr(numba, "njit", no_folder)
    assert compiled(total_loop, f"float64({VECTOR})")(np.ones(3)) == 3.0


def test_everything_can_be_compiled_ahead():
    kb.compile_ahead()

    assert len(groups) >= 2
    assert all(group.is_compiled for group in groups)


def test_a_forked_process_can_compile():
    loops = make_loops()
    loops._compiling.acquire()  # as if another thread were at it
    loops._thread = object()

    loops.begin_in_child()
    loops.ensure()

    assert loops.is_compiled


@pytest.mark.parametrize(
    ("first", "scheme"),
    [
        ("", "NOPColorScheme"),
        ("import numba;", "HighlightColorScheme"),  # negative control: colors are on by default
    ],
)
def test_messages_of_the_compiler_are_not_colored(first, scheme):
    """Coloring would swap sys.stdout under the feet of other threads."""
    if subprocess.run([sys.executable, "-c", "import colorama"], capture_output=True).returncode:
        pytest.skip("colorama is not installed")  # a stand-in of another test may be loaded in this process
    code = (
        f"import os, sys; {first} from kernelbandits._compile import numba; numba();"
        "from numba.core.errors import termcolor;"
        "print(type(termcolor()).__name__, 'NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING' in os.environ)"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert result.split() == [scheme, "False"]


def test_settings_of_numba_survive_the_first_compilation(tmp_path):
    """Numba reads its settings again if an environment variable of its own has changed since the last time."""
    code = (
        f"from kernelbandits._compile import numba; found = numba(); found.config.CACHE_DIR = {str(tmp_path)!r};"
        f"found.njit('int64(int64)')(lambda number: number); print(found.config.CACHE_DIR == {str(tmp_path)!r})"
    )

    for change, survives in (("", True), ("import os; os.environ['NUMBA_OPT'] = '2';", False)):  # negative control
        command = [sys.executable, "-c", code.replace("found.njit", f"{change} found.njit", 1)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == str(survives)


# -- files on disk -------------------------------------------------------------------------------------------------


@pytest.fixture
def on_disk(tmp_path, monkeypatch):
    """A folder with the files of one compiled loop, and no warning given yet."""
    import numba

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_compile, "_warned", set())
    compiled(total_loop, SIGNATURE)
    return tmp_path


def warnings_in(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "zeros": lambda content: bytes(len(content)),
    "one bit": flipped,
    "garbage": lambda _: b"not what it was",
}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_compiled_again_and_replaced(damage, ending, on_disk, caplog):
    (file,) = on_disk.rglob(f"*.{ending}")
    whole = len(file.read_bytes())
    file.write_bytes(DAMAGES[damage](file.read_bytes()))

    assert compiled(total_loop, SIGNATURE)(np.ones(3)) == 3.0
    assert len(warnings_in(caplog)) == 1
    assert "damaged" in warnings_in(caplog)[0]

    _compile._warned.clear()
    assert compiled(total_loop, SIGNATURE).stats.cache_hits
    assert len(warnings_in(caplog)) == 1
    assert abs(len(file.read_bytes()) - whole) < whole / 10


def test_numba_itself_raises_where_a_file_is_damaged(on_disk):
    """Negative control."""
    import numba

    (file,) = on_disk.rglob("*.nbi")
    file.write_bytes(DAMAGES["cut"](file.read_bytes()))

    with pytest.raises(Exception, match=r"truncated|Ran out of input|invalid|EOF"):
        numba.njit(SIGNATURE, cache=True)(total_loop)


def test_a_file_of_another_version_is_compiled_again(on_disk):
    from hashlib import sha256

    (file,) = on_disk.rglob("*.nbi")
    other = pickle.dumps("0.1") + b"whatever that version wrote"
    file.write_bytes(other + sha256(other).digest())

    ready = compiled(total_loop, SIGNATURE)

    assert ready(np.ones(3)) == 3.0
    assert not ready.stats.cache_hits


def test_a_whole_file_is_loaded(on_disk, caplog):
    """Negative control."""
    ready = compiled(total_loop, SIGNATURE)

    assert ready.stats.cache_hits
    assert not warnings_in(caplog)


def test_a_change_of_any_file_that_a_kernel_is_compiled_from_compiles_it_again(on_disk, monkeypatch):
    """Numba looks at the time stamp of the kernel's own file only."""
    before = _compile._source_stamp(__file__)
    monkeypatch.setattr(_compile, "_source_stamp", lambda _: before)
    assert compiled(total_loop, SIGNATURE).stats.cache_hits

    monkeypatch.setattr(_compile, "_source_stamp", lambda _: "of another version")

    assert not compiled(total_loop, SIGNATURE).stats.cache_hits


def test_the_stamp_of_a_kernel_depends_on_its_file_the_compiler_and_shared_constants(tmp_path, monkeypatch):
    stamp, own, shared = _compile._source_stamp.__wrapped__, tmp_path / "loops.py", tmp_path / "compile.py"
    monkeypatch.setattr(_compile, "__file__", str(shared))
    stamps = []
    for content, other in (("a", "b"), ("a", "c"), ("d", "c")):
        own.write_text(content)
        shared.write_text(other)
        stamps.append(stamp(str(own)))

    assert len(set(stamps)) == 3
    assert stamp(str(own)) == stamps[-1]
    for constant in ("TIE_TOLERANCE", "TIE_SLACK"):
        monkeypatch.setattr(_compile, constant, 1e-11)
        stamps.append(stamp(str(own)))
    assert len(set(stamps)) == 5


def test_a_full_disk_is_no_obstacle(on_disk, monkeypatch, caplog):
    from numba.core import caching

    def full(path, mode="r"):
        if "w" in mode:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return open(path, mode)

    monkeypatch.setattr(caching, "open", full, raising=False)
    for file in on_disk.rglob("*.nb?"):
        file.unlink()

    for _ in range(2):
        assert compiled(total_loop, SIGNATURE)(np.ones(3)) == 3.0

    assert len(warnings_in(caplog)) == 1
    assert "No space left" in warnings_in(caplog)[0]


def test_a_file_that_cannot_be_read_is_compiled_again(on_disk, monkeypatch, caplog):
    def unreadable(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(Path, "read_bytes", unreadable)

    assert compiled(total_loop, SIGNATURE)(np.ones(3)) == 3.0
    assert len(warnings_in(caplog)) == 1
    assert "cannot be read" in warnings_in(caplog)[0]


def test_what_cannot_be_rebuilt_is_compiled_in_memory(on_disk, monkeypatch, caplog):
    from numba.core import caching

    def rebuild(*_):
        raise ValueError("made by another llvmlite")

    monkeypatch.setattr(caching.CompileResultCacheImpl, "rebuild", rebuild)

    assert compiled(total_loop, SIGNATURE)(np.ones(3)) == 3.0
    assert "another llvmlite" in warnings_in(caplog)[0]


# -- what cannot be compiled ---------------------------------------------------------------------------------------


def broken_loop(numbers):
    return numbers.there_is_no_such_thing()


def test_numpy_stays_where_compiling_fails(caplog):
    loops = Loops(total=Loop(loop=broken_loop, signature=SIGNATURE))

    for _ in range(2):
        loops.ensure()

    assert loops.has_failed
    assert loops.total is None
    assert sum("NumPy is used instead of broken_loop" in message for message in warnings_in(caplog)) == 1


def test_a_choice_does_not_fail_where_no_thread_can_be_started(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    loops = make_loops()
    monkeypatch.setattr(_compile.Thread, "start", start)
    loops.record_work(WORK_BEFORE_COMPILE)
    assert loops._thread is None

    monkeypatch.undo()
    loops.record_work(WORK_BEFORE_COMPILE)
    loops._thread.join()
    assert loops.is_compiled


# -- forks and the end of the program ------------------------------------------------------------------------------

STAGE = """
import os, sys, threading, time
import logging, random, concurrent.futures.thread, multiprocessing.util  # they register for forks too
import numpy as np
register = os.register_at_fork
if "unguarded" in sys.argv:
    os.register_at_fork = lambda **_: None
from kernelbandits import _compile as compiling
from kernelbandits._compile import Loop, Loops, WORK_BEFORE_COMPILE
os.register_at_fork = register
compiling.numba()
import numba.core.event as ev
from numba.core.compiler_lock import global_compiler_lock

def total_loop(numbers):  # of no file, so that every compilation is in memory
    total = 0.0
    for number in numbers:
        total += number
    return total

def make_loops():
    return Loops(total=Loop(loop=total_loop, signature="float64(float64[::1])"))

class Gate(ev.Listener):
    "Holds the thread that compiles at one of its passes, where it has the lock of the compiler, until `opens()`."
    def __init__(self, place, opens):
        self.place, self.opens, self.n_passes, self.reached = place, opens, 0, threading.Event()

    def on_start(self, event):
        if threading.current_thread().name == "kernelbandits-compile":
            self.n_passes += 1
            if self.n_passes == self.place:
                assert global_compiler_lock.is_locked()
                self.reached.set()
                while not self.opens():
                    time.sleep(0.001)

    def on_end(self, event):
        pass

def compiling_at(place, opens):
    "A group that is being compiled by a thread at this pass."
    loops, gate = make_loops(), Gate(place, opens)
    ev.register("numba:run_pass", gate)
    loops.record_work(WORK_BEFORE_COMPILE + 1)
    assert gate.reached.wait(200)
    return loops
"""


def run(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", STAGE + code, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, **environment},
    )


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

FORKS = """
for place in (1, 9, 10**6):
    if place == 10**6:  # a lock of Numba that the thread of someone else holds
        held, done = threading.Event(), threading.Event()
        def hold():
            with global_compiler_lock:
                held.set()
                done.wait()
        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        loops = make_loops()
    else:
        loops = compiling_at(place, lambda: compiling._forking)
    child = os.fork()
    if not child:
        loops.ensure()
        print("child", loops.is_compiled, (loops.total or np.sum)(np.ones(3)), flush=True)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    if place == 10**6:
        done.set()
    loops.ensure()
    print("parent", loops.is_compiled, (loops.total or np.sum)(np.ones(3)), flush=True)
"""


@needs_fork
def test_a_process_that_is_forked_while_loops_are_compiled_compiles_by_itself_and_ends():
    done = run(FORKS)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["child True 3.0", "parent True 3.0"] * 2
    # Where somebody else was inside of Numba, the child stays with NumPy.
    assert done.stdout.split("\n")[4:6] == ["child False 3.0", "parent True 3.0"]


@needs_fork
def test_without_care_a_forked_process_would_find_the_compiler_locked():
    """Negative control."""
    done = run(
        """
forked = threading.Event()
compiling_at(9, forked.is_set)
child = os.fork()
if not child:
    print(global_compiler_lock._lock.acquire(blocking=False), flush=True)
    os._exit(0)
forked.set()
os.waitpid(child, 0)
""",
        "unguarded",
    )

    assert done.stdout.split() == ["False"]


@needs_fork
def test_a_fork_does_not_wait_for_ever_and_its_child_stays_with_numpy():
    """As where the compiler waits for something that the forking thread holds."""
    done = run(
        """
compiling.FORK_PATIENCE = 0.0
forked = threading.Event()
loops = compiling_at(9, forked.is_set)
child = os.fork()
if not child:
    loops.record_work(WORK_BEFORE_COMPILE + 1)
    loops.ensure()
    print("child", loops.is_compiled, (loops.total or np.sum)(np.ones(3)), flush=True)
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
forked.set()
loops.ensure()
print("parent", loops.is_compiled, (loops.total or np.sum)(np.ones(3)))
"""
    )

    assert done.stdout.split("\n")[:2] == ["child False 3.0", "parent True 3.0"], done.stderr


ENDS = """
logging.basicConfig(level=logging.INFO)
if "to the end" in sys.argv:
    compiling._is_exiting = lambda: False
loops = compiling_at(9, lambda: not threading.main_thread().is_alive())
"""


def test_the_end_of_the_program_stops_the_compiler_at_its_next_pass():
    done = run(ENDS)

    assert done.returncode == 0
    assert "The program ends: not compiled: total_loop" in done.stderr
    assert "Compiled or loaded" not in done.stderr


def test_the_end_of_the_program_would_wait_for_the_whole_loop():
    """Negative control."""
    done = run(ENDS, "to the end")

    assert done.returncode == 0
    assert "Compiled or loaded" in done.stderr


def test_compiling_goes_on_while_another_thread_works_after_the_main_thread():
    done = run(
        """
loops = compiling_at(9, lambda: not threading.main_thread().is_alive())
def work():
    loops._thread.join()
    print(loops.is_compiled)
threading.Thread(target=work).start()
"""
    )

    assert done.stdout.split() == ["True"], done.stderr


@pytest.mark.long
@needs_fork
def test_all_workers_that_are_forked_while_the_library_compiles_for_the_first_time_end(tmp_path):
    done = run(
        """
import multiprocessing
import kernelbandits as kb
from kernelbandits.posterior._primal_loops import feature_loops

def work(number):
    feature_loops.ensure()
    assert feature_loops.is_compiled
    contexts = np.random.default_rng(number).normal(size=(20, 3))
    policy = kb.KernelUCB(kb.kernels.Gaussian(length_scale=1.0), regularization=0.1, exploration=0.5)
    for _ in range(30):
        policy.learn(policy.choose(contexts), 0.5)

context = multiprocessing.get_context("fork")
feature_loops.record_work(10**9)
workers = []
for number in range(7):
    time.sleep(0.3)  # somewhere in the compiler
    workers.append(context.Process(target=work, args=(number,)))
    workers[-1].start()
for worker in workers:
    worker.join()
print([worker.exitcode for worker in workers])
""",
        NUMBA_CACHE_DIR=str(tmp_path),
    )

    assert done.stdout.strip() == str([0] * 7), done.stderr
