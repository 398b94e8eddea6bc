"""Counts the Python calls, modules and packages that a round and a study pass through: tables of docs/architecture.md.

    python -m scripts.call_paths            # the call paths
    python -m scripts.call_paths --size     # the size of the source, which takes a second

Profile events of functions inside the package are counted; a compiled loop counts once. Policies are warm, and
everything is compiled.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

import kernelbandits as kb

SOURCE: Final = str(Path(kb.__file__).parent)
N_ROUNDS: Final = 60
"""Rounds before one is counted: every cache is filled, and the automatic posterior has taken its form."""


class CallPath(NamedTuple):
    """What one call passed through."""

    calls: int
    cross_module: int
    modules: int
    packages: int
    depth: int


class Size(NamedTuple):
    """Size of source files; code is without blank lines, comments and docstrings."""

    modules: int
    lines: int
    code: int
    docstrings: int


def main() -> None:
    """Print the table."""
    if "--size" in sys.argv[1:]:
        print("| modules | lines | code | docstrings |")
        print("| ---: | ---: | ---: | ---: |")
        print("| " + " | ".join(f"{number:,}" for number in size_of(Path(SOURCE))) + " |")
        return
    kb.compile_ahead()
    print("| path | Python calls | cross-module calls | modules | packages | depth |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in cases():
        for method, path in warm_round(name).items():
            _print(f"{name}, `{method}`", path)
    _count_study()


def size_of(folder: Path) -> Size:
    """Size of all modules below a folder."""
    sizes = [_size(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    return Size(*(sum(numbers) for numbers in zip(*sizes, strict=True)))


def _size(source: str) -> Size:
    lines = source.splitlines()
    described: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            described.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = [line for number, line in enumerate(lines, 1) if number not in described and line.strip()]
    return Size(1, len(lines), sum(not line.lstrip().startswith("#") for line in code), len(described))


def warm_round(name: str) -> dict[str, CallPath]:
    """Paths of `choose` and `learn` in a round of a warm policy."""
    policy, contexts = cases()[name]
    for round_index in range(N_ROUNDS):
        decision = policy.choose(contexts(round_index))
        policy.learn(decision, float(np.sin(decision.action)))
    decision, choose = _traced(lambda: policy.choose(contexts(N_ROUNDS)))
    return {"choose": choose, "learn": _traced(lambda: policy.learn(decision, 0.5))[1]}


def _print(name: str, path: CallPath) -> None:
    print(f"| {name} | " + " | ".join(map(str, path)) + " |")


STUDY: Final = """
name = "small"
horizon = 20
seeds = [0, 1]
every = 5

[environments.groups]
class = "Clustered"
n_actions = 4

[policies.KernelUCB]
class = "KernelUCB"
kernel = { class = "Gaussian", length_scale = 0.3 }
exploration = 0.3

[policies.Random]
class = "UniformRandom"
"""


def _count_study() -> None:
    """Read a study of four jobs, run it in this process and report it."""
    from kernelbandits.experiments import Study, report, run

    with TemporaryDirectory() as place:
        file = Path(place) / "study.toml"
        file.write_text(STUDY)
        study, reading = _traced(lambda: Study.from_toml(file))
        results, running = _traced(lambda: run(study, Path(place) / "results", workers=1))
        _, reporting = _traced(lambda: report(results, Path(place) / "report", formats=["svg"]))
    for name, path in (("`Study.from_toml`", reading), ("`run`, 4 jobs", running), ("`report`", reporting)):
        _print(name, path)


def cases() -> dict[str, tuple[Any, Callable[[int], Any]]]:
    """Policies with the contexts of round t, by name."""
    rng = np.random.default_rng(0)
    fresh = rng.uniform(size=(N_ROUNDS + 1, 40, 5))
    catalog = kb.Catalog(rng.uniform(size=(2_000, 5)))

    def kernel_ucb() -> kb.KernelUCB:
        return kb.KernelUCB(kb.kernels.Gaussian(length_scale=0.5), regularization=0.5, exploration=0.5)

    return {
        "KernelUCB, 40 fresh rows": (kernel_ucb(), lambda t: fresh[t]),
        "KernelUCB, catalog of 2,000": (kernel_ucb(), lambda _: catalog),
        "LinUCB shared": (kb.LinUCB(exploration=0.5), lambda t: fresh[t]),
        "LinUCB disjoint": (kb.LinUCB(model="disjoint", exploration=0.5), lambda t: fresh[t]),
        "Mixed(KernelUCB), 40 fresh rows": (kb.Mixed(kernel_ucb(), epsilon=0.0, seed=0), lambda t: fresh[t]),
        "Mixed(KernelUCB), random actions": (kb.Mixed(kernel_ucb(), epsilon=1.0, seed=0), lambda t: fresh[t]),
        "Mixed(LinUCB)": (kb.Mixed(kb.LinUCB(exploration=0.5), epsilon=0.0, seed=0), lambda t: fresh[t]),
    }


def _traced(call: Callable[[], Any]) -> tuple[Any, CallPath]:
    """The result of a call, and what it passed through."""
    stack: list[str] = []
    calls: list[tuple[str, str]] = []  # module of the caller, module
    deepest = 0

    def trace(frame: Any, event: str, _: Any) -> None:
        nonlocal deepest
        file = frame.f_code.co_filename
        if not file.startswith(SOURCE):
            return
        if event == "call":
            module = file[len(SOURCE) + 1 : -3].replace("/", ".")
            calls.append((stack[-1] if stack else module, module))
            stack.append(module)
            deepest = max(deepest, len(stack))
        elif event == "return" and stack:
            stack.pop()

    sys.setprofile(trace)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    modules = {module for _, module in calls}
    packages = {module.split(".")[0] for module in modules if "." in module}
    crossing = sum(caller != module for caller, module in calls)
    return result, CallPath(len(calls), crossing, len(modules), len(packages), deepest)


if __name__ == "__main__":
    main()
