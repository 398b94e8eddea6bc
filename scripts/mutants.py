"""Mutation testing: change one operator or constant of the source at a time, and see whether a test fails.

python -m scripts.mutants --count 500

The mutants are a seeded sample of all single changes in policies/, posterior/, selection/ and theory/. Each one is
written into a copy of the repository, and meets the tests that execute its line, the fastest and those of its module
first. Which tests these are, and how long each one takes, is measured once per version of the sources, without a
mutant; tests that fail then are left out. A mutant is killed if a test fails, or if the tests take three times their
usual CPU time. Results are appended to results.jsonl as they come, so that a run may be interrupted and continued;
those of several machines can be concatenated. docs/mutants.md has the last results.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import os
import re
import resource
import shutil
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import import_module
from math import inf
from pathlib import Path
from time import monotonic, sleep
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = Path("src") / "kernelbandits"
PACKAGES: Final = ("policies", "posterior", "selection", "theory")
TESTED: Final = (
    *("tests/properties", "tests/statistical", "tests/golden", "docs/errata.md", "docs/theory.md"),
    *(f"tests/unit/{package}" for package in (*PACKAGES, "testing")),
    "tests/unit/test_errata.py",
)
"""Tests that mutants meet, besides the doctests of the packages; the slowest first."""

COPIED: Final = ("src", "tests", "docs", "scripts", "studies", "conftest.py", "pyproject.toml", "README.md")

OPERATORS: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

NAMES: Final = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "argmin": "argmax",
    "argmax": "argmin",
    "floor": "ceil",
    "ceil": "floor",
}

MEMORY: Final = 8 * 2**30
"""Bytes of address space of a test run: a mutated size must not take the machine's memory."""

NO_TESTS: Final = int(pytest.ExitCode.NO_TESTS_COLLECTED)

IMPORTED: Final = ("numba", "numpy.testing", "scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats")
"""Modules that the tests need, imported once."""

BATCHES: Final = (5.0, 40.0)
"""Usual CPU seconds of tests after which the next batch begins: most mutants fall to the first tests."""

MIRRORED: Final = 0.2
"""Factor of the time of a test of the mutated module, by which tests are ordered."""

UNTESTED: Final = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
"""Error messages, assertions for the type checker and formatted text."""


@dataclass(frozen=True)
class Mutant:
    """One change of one expression."""

    key: str
    path: str
    function: str
    line: int
    original: str
    mutated: str
    span: tuple[int, int]
    """Bytes of the source that `mutated` replaces."""

    def apply(self, source: bytes) -> bytes:
        return source[: self.span[0]] + self.mutated.encode() + source[self.span[1] :]


# -- mutants ---------------------------------------------------------------------------------------------------------


def sample(root: Path, *, seed: int, count: int) -> list[Mutant]:
    """The `count` mutants with the lowest hash of seed, place and change: stable while other lines are edited."""
    paths = [path for package in PACKAGES for path in sorted((root / SOURCE / package).rglob("*.py"))]
    return sorted((mutant for path in paths for mutant in mutants(root, path, seed)), key=lambda one: one.key)[:count]


def mutants(root: Path, path: Path, seed: int) -> Iterator[Mutant]:
    """All mutants of a module, in the order of the source."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    seen: Counter[tuple[str, str, str]] = Counter()
    name = str(path.relative_to(root))
    for node, function in _expressions(ast.parse(source), ""):
        assert isinstance(node, ast.expr | ast.AugAssign)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        span = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        original = ast.unparse(node)
        for changed in _changes(node):
            mutated = ast.unparse(changed)
            if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp):
                mutated = f"({mutated})"
            place = function, original, mutated
            seen[place] += 1
            key = sha256(repr((seed, name, *place, seen[place])).encode()).hexdigest()[:16]
            yield Mutant(key, name, function, node.lineno, original, mutated, span)


def _expressions(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """Expressions that can be mutated, with the names of the classes and functions around them."""
    if isinstance(node, UNTESTED) or (isinstance(node, ast.Call) and "warn" in ast.unparse(node.func)):
        return
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        function = f"{function}.{node.name}".removeprefix(".")
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.expr | ast.AugAssign):
        yield node, function
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _expressions(child, function)


def _changes(node: ast.expr | ast.AugAssign) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in OPERATORS:
        yield _with(node, "op", OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            ops = list(node.ops)
            ops[place] = OPERATORS[type(op)]()  # type: ignore[call-overload]
            yield _with(node, "ops", ops)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield ast.Constant(_other_number(node.value))
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield _with(node, "id", NAMES[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield _with(node, "attr", NAMES[node.attr])


def _other_number(value: bool | int | float) -> bool | int | float:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else 2.0 * value or 1.0


def _with(node: ast.AST, field: str, value: object) -> ast.AST:
    changed = deepcopy(node)
    setattr(changed, field, value)
    return changed


# -- tests -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """How a run of tests ended."""

    status: str
    """"survived" if all tests passed, "killed", or "timeout"."""

    by: str
    """First failure."""

    seconds: float
    """CPU time."""


class Limits(NamedTuple):
    """What a run of tests may take, in seconds."""

    cpu: int = 3_600
    time: int = 7_200


def run_tests(root: Path, files: Sequence[str], limits: Limits, *plugins: object) -> Run:
    """Run the tests of these files until the first failure, or all of them while they are recorded.

    They run in a fork of this process, which has imported what takes time, but nothing of the library.
    """
    output = root / "output.txt"
    child = os.fork()
    if not child:
        _test_in_child(root, files, output, limits, plugins)
    try:
        _, status, usage = os.wait4(child, 0)
    finally:  # also if this process is terminated, and for processes that tests have left
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    seconds = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM):
        return Run("timeout", "", seconds)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, NO_TESTS):
        return Run("survived", "", seconds)
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output.read_text(errors="replace"), re.MULTILINE)
    return Run("killed", found[1] if found else f"status {status}", seconds)


def _test_in_child(root: Path, files: Sequence[str], output: Path, limits: Limits, plugins: Sequence[object]) -> None:
    """Run pytest with limits on CPU time, time and memory, and exit."""
    code = 99
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu, limits.cpu))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.alarm(limits.time)  # kills a test that waits forever
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(root)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
        sys.path[:] = [str(root / "src"), *(entry for entry in sys.path if entry not in ("", str(ROOT)))]
        options = ["-q", "-m", "not long", "--tb=no", "-p", "no:cacheprovider"]
        options += ["-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0"]
        if not any(isinstance(plugin, Recorder) for plugin in plugins):
            options.append("-x")
        code = int(pytest.main([*options, *files], plugins=list(plugins)))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


class Chosen:
    """Pytest plugin: runs these tests only, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(chosen, key=lambda item: self._place[item.nodeid])


class Recorder:
    """Pytest plugin: writes the CPU time of each test, whether it passes, and the lines that it executes.

    Only lines inside functions of the packages count; compiled loops execute none.
    """

    def __init__(self, root: Path, target: Path, *, is_tracing: bool) -> None:
        self._folders = tuple(f"{root / SOURCE / package}{os.sep}" for package in PACKAGES)
        self._root, self._target, self._is_tracing = root, target, is_tracing
        self._unseen: dict[int, tuple[CodeType, set[int]]] = {}
        self._tests: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._unseen = {}
        self._tests[item.nodeid] = record = {"is_passed": True}
        before = _cpu_seconds()
        if self._is_tracing:
            threading.settrace(self._enter)
            sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            record["seconds"] = round(_cpu_seconds() - before, 3)
            record["lines"] = lines = {}
            for code, unseen in self._unseen.values():
                seen = _lines_of(code) - unseen
                lines.setdefault(str(Path(code.co_filename).relative_to(self._root)), set()).update(seen)
            record["lines"] = {path: sorted(numbers) for path, numbers in lines.items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tests[report.nodeid]["is_passed"] = False

    def pytest_sessionfinish(self) -> None:
        self._target.write_text(json.dumps(self._tests), encoding="utf-8")

    def _enter(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(self._folders) or code.co_name == "<module>":
            return None
        if id(code) not in self._unseen:
            self._unseen[id(code)] = code, _lines_of(code)
        return self._step if self._unseen[id(code)][1] else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        self._unseen[id(frame.f_code)][1].discard(frame.f_lineno)
        return self._step


def _lines_of(code: CodeType) -> set[int]:
    return {line for *_, line in code.co_lines() if line is not None}


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class TestMap:
    """Usual CPU time of the tests that pass without a mutant, and which of them execute a line."""

    __test__ = False  # pytest

    def __init__(self, tests: dict[str, dict[str, Any]]) -> None:
        self.seconds = {test: float(record["seconds"]) for test, record in tests.items()}
        self._by_line: dict[str, dict[int, set[str]]] = {}
        for test, record in tests.items():
            for path, lines in record["lines"].items():
                for line in lines:
                    self._by_line.setdefault(path, {}).setdefault(line, set()).add(test)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Tests of the lines of a mutant, in the order in which to run them.

        A line that no test executes, such as a default or the body of a compiled loop, is met by all tests that
        execute any line of its module, or of its package if that is one of compiled loops.
        """
        by_line = self._by_line.get(mutant.path, {})
        n_lines = mutant.original.count("\n") + 1
        found = set().union(*(by_line.get(line, set()) for line in range(mutant.line, mutant.line + n_lines)))
        if not found:
            near = mutant.path if not mutant.path.endswith("_loops.py") else f"{Path(mutant.path).parent}{os.sep}"
            paths = [path for path in self._by_line if path.startswith(near)]
            found = {test for path in paths for tests in self._by_line[path].values() for test in tests}
        stem = Path(mutant.path).stem.strip("_")
        mirrored = re.compile(rf"/test_{stem}(_|\.py)|^{re.escape(mutant.path)}::")

        def usual(test: str) -> tuple[float, str]:
            return self.seconds[test] * (MIRRORED if mirrored.search(test) else 1.0), test

        return sorted(found or self.seconds, key=usual)


def batches(tests: Sequence[str], seconds: dict[str, float]) -> list[list[str]]:
    """Tests in runs of their own, each with its imports: a first one, a second one and all others."""
    ends, total = list(BATCHES), 0.0
    found: list[list[str]] = [[]]
    for test in tests:
        if ends and total + seconds[test] > ends[0] and found[-1]:
            found.append([])
            del ends[0]
        found[-1].append(test)
        total += seconds[test]
    return found


# -- verdicts --------------------------------------------------------------------------------------------------------


class Judge:
    """Runs tests on mutants, in a copy of the repository."""

    def __init__(self, tests: TestMap, *, cpu_seconds: float, patience: float) -> None:
        self._tests, self._cpu_seconds, self._patience = tests, cpu_seconds, patience

    def verdict(self, root: Path, mutant: Mutant) -> Run:
        """Result of a mutant; the copy is as before afterwards.

        A mutant that survives tests of `cpu_seconds` and would meet others stays "open".
        """
        path, total = root / mutant.path, 0.0
        source, times, cache = path.read_bytes(), path.stat(), path.parent / "__pycache__"
        if path.name.endswith("_loops.py"):  # compiled code of the mutant would replace that of the original
            shutil.copytree(cache, root / "cache", dirs_exist_ok=True)
        path.write_bytes(mutant.apply(source))
        try:
            for tests in batches(self._tests.tests_of(mutant), self._tests.seconds):
                usual = sum(self._tests.seconds[test] for test in tests)
                if total + usual > self._cpu_seconds and total > 0.0:
                    return Run("open", "", total)
                cpu = int(3.0 * usual) + 30 + (120 if path.name.endswith("_loops.py") else 0)
                limits = Limits(cpu, int(self._patience * cpu))
                files = list(dict.fromkeys(test.split("::")[0] for test in tests))
                run = run_tests(root, files, limits, Chosen(tests))
                total += run.seconds
                if run.status != "survived":
                    return Run(run.status, run.by, total)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its bytecode stays valid
            if path.name.endswith("_loops.py"):
                shutil.rmtree(cache)
                shutil.move(root / "cache", cache)
        return Run("survived", "", total)


def copy_repository(source: Path, target: Path) -> Path:
    """Fresh copy of what the tests need; mutants never touch the working tree."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in COPIED:
        if (source / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__") if source == ROOT else None
            shutil.copytree(source / name, target / name, ignore=ignored)
        else:
            shutil.copy2(source / name, target / name)
    return target


def in_parallel(tasks: Iterable[Callable[[Path], None]], roots: Sequence[Path], *, until: float) -> None:
    """Run each task in a process of its own, in a copy of the repository that no other one uses; stop at a time."""
    waiting, free = list(tasks)[::-1], list(roots)
    running: dict[int, Path] = {}
    try:
        while (waiting or running) and monotonic() < until:
            while waiting and free:
                task, root = waiting.pop(), free.pop()
                child = os.fork()
                if not child:
                    _run_and_exit(task, root)
                running[child] = root
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if ended:
                free.append(running.pop(ended))
            else:
                sleep(0.02)
    finally:
        for child in running:
            os.kill(child, signal.SIGTERM)
        for child in running:
            os.waitpid(child, 0)


def _run_and_exit(task: Callable[[Path], None], root: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    code = 1
    try:
        task(root)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def measure(roots: Sequence[Path], *, until: float) -> dict[str, dict[str, Any]]:
    """Time and lines of all tests that pass."""
    base = roots[0]
    folders = [base / name for name in TESTED]
    tests = [path for one in folders for path in (sorted(one.rglob("test_*.py")) if one.is_dir() else [one])]
    files = [str(path.relative_to(base)) for path in tests] + [str(SOURCE / package) for package in PACKAGES]
    found: list[dict[str, dict[str, Any]]] = []
    for is_tracing in (False, True):
        parts = [base.parent / f"part-{is_tracing}-{number}.json" for number in range(len(files))]
        tasks = [_recording(file, part, is_tracing=is_tracing) for file, part in zip(files, parts, strict=True)]
        in_parallel(tasks, roots, until=until)
        if missing := [file for file, part in zip(files, parts, strict=True) if not part.exists()]:
            sys.exit(f"No time for {', '.join(missing)}, or they could not be run.")
        found.append({test: record for part in parts for test, record in json.loads(part.read_text()).items()})
    plain, traced = found
    return {
        test: {"seconds": record["seconds"], "lines": traced[test]["lines"]}
        for test, record in plain.items()
        if record["is_passed"] and traced.get(test, {"is_passed": False})["is_passed"]
    }


def _recording(file: str, part: Path, *, is_tracing: bool) -> Callable[[Path], None]:
    def record(root: Path) -> None:
        run = run_tests(root, [file], Limits(), Recorder(root, part, is_tracing=is_tracing))
        print(f"{run.seconds:6.1f} {file} {run.by}", flush=True)

    return record


# -- command ---------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the mutants that have no result yet, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=500, help="size of the sample (default 500)")
    parser.add_argument("--seed", type=int, default=14, help="seed of the sample (default 14)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="results and working copies")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default 1)")
    parser.add_argument("--seconds", type=float, default=inf, help="stop after this time; run again to continue")
    parser.add_argument(
        "--cpu-seconds", type=float, default=inf, help="leave a mutant open that survives tests of this CPU time"
    )
    parser.add_argument(
        "--patience", type=float, default=20.0, help="seconds that a test may wait per second of CPU time (default 20)"
    )
    parser.add_argument("--again", action="store_true", help="run survivors of earlier runs again")
    parser.add_argument("--only", default="", help="mutants of paths that contain this text only")
    parser.add_argument("--report", action="store_true", help="print the results so far and run nothing")
    arguments = parser.parse_args()

    chosen = [one for one in sample(ROOT, seed=arguments.seed, count=arguments.count) if arguments.only in one.path]
    results = arguments.folder / "results.jsonl"
    if not arguments.report:
        known = _results(results)
        again = ("", "open", "survived") if arguments.again else ("", "open")
        left = [one for one in chosen if known.get(one.key, {"status": ""})["status"] in again]
        _run(left, arguments, results, until=monotonic() + arguments.seconds)
    print(report(chosen, _results(results)))


def _run(left: Sequence[Mutant], arguments: argparse.Namespace, results: Path, *, until: float) -> None:
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MPLBACKEND="Agg")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # imports take time
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for name in IMPORTED:
        import_module(name)
    roots = [arguments.folder / f"copy-{number}" for number in range(arguments.jobs)]
    copy_repository(ROOT, roots[0])
    run_tests(roots[0], [str(SOURCE / "theory")], Limits())  # compiles loops
    run_tests(roots[0], [*TESTED, *(str(SOURCE / package) for package in PACKAGES)], Limits(), Chosen([]))
    for root in roots[1:]:
        copy_repository(roots[0], root)  # with its bytecode
    stored = arguments.folder / f"tests-{_digest(roots[0])}.json.gz"
    if not stored.exists():
        print("Measuring the tests without a mutant.", flush=True)
        stored.write_bytes(gzip.compress(json.dumps(measure(roots, until=until)).encode()))
    print(f"{len(left)} mutants", flush=True)
    judge = Judge(
        TestMap(json.loads(gzip.decompress(stored.read_bytes()))),
        cpu_seconds=arguments.cpu_seconds,
        patience=arguments.patience,
    )
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # that of a mutant would be taken for that of the original
    sys.dont_write_bytecode = True

    def task(mutant: Mutant) -> Callable[[Path], None]:
        def judge_one(root: Path) -> None:
            run = judge.verdict(root, mutant)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**asdict(mutant), **asdict(run)}) + "\n")
            print(f"{run.status:8} {mutant.path}:{mutant.line} {mutant.original} → {mutant.mutated}", flush=True)

        return judge_one

    in_parallel([task(mutant) for mutant in left], roots, until=until)


def _digest(root: Path) -> str:
    """Of all files on which time and lines of the tests depend."""
    found = sha256()
    for path in sorted(path for name in ("src", "tests", "docs") for path in (root / name).rglob("*")):
        if path.suffix in (".py", ".md", ".npz"):
            found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


def report(chosen: Sequence[Mutant], known: dict[str, dict[str, Any]]) -> str:
    """Score by package, and the survivors."""
    found = [(one, known[one.key]["status"]) for one in chosen if one.key in known]
    lines = []
    for package in (*PACKAGES, ""):
        ran = [status for one, status in found if one.path.startswith(str(SOURCE / package))]
        n_survived, n_open = ran.count("survived"), ran.count("open")
        n_killed = len(ran) - n_survived - n_open
        # An open mutant may go either way; leaving it out would favor the mutants that are killed early.
        least, most = (f"{n / max(len(ran), 1):.1%}" for n in (n_killed, n_killed + n_open))
        counts = f"{len(ran):4} run {n_killed:4} killed {n_survived:4} survived {n_open:4} open"
        lines.append(f"{package or 'all':10} {counts}  score {least} to {most}")
    survivors = [(one, status) for one, status in found if status in ("survived", "open")]
    lines += [
        f"{status} {one.path}:{one.line} in {one.function}: {one.original} → {one.mutated}" for one, status in survivors
    ]
    return "\n".join(lines)


def _results(path: Path) -> dict[str, dict[str, Any]]:
    """Last result of each mutant."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {record["key"]: record for record in map(json.loads, lines)}


if __name__ == "__main__":
    main()
