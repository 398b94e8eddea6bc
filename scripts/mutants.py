"""Mutation testing: change one operator or constant of the source at a time, and see whether a test fails.

python -m scripts.mutants --count 500

The mutants are a seeded sample of all single changes in policies/, posterior/, selection/ and theory/. Each one is
written into a copy of the repository. The tests of its module run first, then the golden traces, then all tests of its
package and of policies, which use the others, and the properties. All of them have to pass without a mutant. A mutant
is killed if a test fails, or if the tests take three times their usual CPU time. Results are appended to a file as they
come, so that a run may be interrupted and continued. docs/mutants.md has the last results.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = Path("src") / "kernelbandits"
PACKAGES: Final = ("policies", "posterior", "selection", "theory")
COMMON: Final = ("tests/unit/policies", "tests/unit/test_errata.py", "tests/properties")
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

DESELECTED: Final[list[str]] = []
"""Tests that fail without a mutant, by the command line."""

NO_TESTS: Final = int(pytest.ExitCode.NO_TESTS_COLLECTED)

PATIENCE: Final = 20
"""Seconds of time per second of CPU time after which a run of the tests is stopped."""

IMPORTED: Final = ("numba", "numpy.testing", "scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats")
"""Modules that the tests need, imported once."""

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


def stages(root: Path, path: str) -> list[list[str]]:
    """Tests of a module: those that mirror it with its doctests, the golden traces, those of its package and others."""
    package, *folders, file = Path(path).relative_to(SOURCE).parts
    unit = root / "tests" / "unit" / package
    stem = file.removesuffix(".py").strip("_")
    mirrored = sorted(str(found.relative_to(root)) for found in unit.joinpath(*folders).glob(f"test_{stem}*.py"))
    return [[*mirrored, path], ["tests/golden"], sorted({str(unit.relative_to(root)), *COMMON})]


def run_tests(root: Path, tests: Sequence[str], *, cpu_seconds: int) -> tuple[str, str, float]:
    """Whether the tests "survived", were "killed" or ran into the limit, the first failure, and the CPU time.

    They run in a fork of this process, which has imported what takes time, but nothing of the library.
    """
    output = root.parent / "output.txt"
    child = os.fork()
    if not child:
        _test_in_child(root, tests, output, cpu_seconds)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM):
        return "timeout", "", seconds
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, NO_TESTS):
        return "survived", "", seconds
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return "killed", found[1] if found else f"status {status}", seconds


def _test_in_child(root: Path, tests: Sequence[str], output: Path, cpu_seconds: int) -> None:
    """Run pytest with limits on CPU time, time and memory, and exit."""
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.alarm(PATIENCE * cpu_seconds)  # kills a test that waits for ever
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(root)
        os.environ["PYTHONPATH"] = str(root / "src")  # for processes that tests start
        sys.path[:] = [str(root / "src"), *(entry for entry in sys.path if entry not in ("", str(ROOT)))]
        options = ["-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "--tb=no"]
        code = int(pytest.main([*options, *(f"--deselect={name}" for name in DESELECTED), *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


class Judge:
    """Runs the tests on mutants, in a copy of the repository."""

    def __init__(self, root: Path, cpu_seconds: int) -> None:
        self._root, self._cpu_seconds = root, cpu_seconds
        self._usual: dict[tuple[str, ...], int] = {}

    def verdict(self, mutant: Mutant, *, is_quick: bool = False) -> tuple[str, str]:
        """Status of a mutant, and the test that killed it; the copy is as before afterwards.

        Quick: a mutant that survives the first stages stays "open", and the last one is left for another run.
        """
        all_stages = stages(self._root, mutant.path)
        for tests in all_stages[:-1] if is_quick else all_stages:
            limit = self._limit(tests)
            path = self._root / mutant.path
            source = path.read_bytes()
            path.write_bytes(mutant.apply(source))
            try:
                status, by, _ = run_tests(self._root, tests, cpu_seconds=limit)
            finally:
                path.write_bytes(source)
            if status != "survived":
                return status, by
        return "open" if is_quick else "survived", ""

    def _limit(self, tests: Sequence[str]) -> int:
        """Three times the CPU time of these tests without a mutant, which they have to pass."""
        key = tuple(tests)
        if key not in self._usual:
            status, by, seconds = run_tests(self._root, tests, cpu_seconds=self._cpu_seconds)
            if status != "survived":
                sys.exit(f"Without a mutant the tests {', '.join(tests)} fail: {status} {by}.")
            self._usual[key] = int(3.0 * seconds) + 20
        return self._usual[key]


def copy_repository(target: Path) -> Path:
    """Fresh copy of what the tests need; mutants never touch the working tree."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, target / name)
    return target


# -- command ---------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the mutants that have no result yet, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=500, help="size of the sample (default 500)")
    parser.add_argument("--seed", type=int, default=14, help="seed of the sample (default 14)")
    parser.add_argument(
        "--cpu-seconds", type=int, default=600, help="most CPU time of a run without a mutant (default 600)"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="results and working copy")
    parser.add_argument("--again", action="store_true", help="run survivors of earlier runs again")
    parser.add_argument("--quick", action="store_true", help="leave the last stage of tests for another run")
    parser.add_argument("--only", default="", help="mutants of paths that contain this text only")
    parser.add_argument("--deselect", action="append", default=[], help="a test that fails without a mutant")
    parser.add_argument("--report", action="store_true", help="print the results so far and run nothing")
    arguments = parser.parse_args()

    chosen = [one for one in sample(ROOT, seed=arguments.seed, count=arguments.count) if arguments.only in one.path]
    results = arguments.folder / "results.jsonl"
    known = {record["key"]: record for record in map(json.loads, _lines(results))}
    if not arguments.report:
        os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MPLBACKEND="Agg", PYTHONDONTWRITEBYTECODE="1")
        sys.dont_write_bytecode = True
        for name in IMPORTED:
            import_module(name)
        DESELECTED.extend(arguments.deselect)
        judge = Judge(copy_repository(arguments.folder / "copy"), arguments.cpu_seconds)
        for mutant in chosen:
            before = known.get(mutant.key, {"status": ""})["status"]
            if before in ("killed", "timeout") or (before == "survived" and not arguments.again):
                continue
            if before == "open" and arguments.quick:
                continue
            status, by = judge.verdict(mutant, is_quick=arguments.quick)
            known[mutant.key] = {**asdict(mutant), "status": status, "by": by}
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[mutant.key]) + "\n")
            print(f"{status:8} {mutant.path}:{mutant.line} {mutant.original} → {mutant.mutated}", flush=True)
    print(report(chosen, known))


def report(chosen: Sequence[Mutant], known: dict[str, dict[str, str]]) -> str:
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


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


if __name__ == "__main__":
    main()
