"""KernelUCB beside its relatives on a problem that is not linear: played, drawn and written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelbandits._files import writable_folder
from kernelbandits._optional import import_optional, versions
from kernelbandits._threads import one_blas_thread
from kernelbandits.evaluation import Trace
from kernelbandits.experiments import demo_study as study
from kernelbandits.experiments import demo_text as text
from kernelbandits.experiments.comparison import Comparison
from kernelbandits.experiments.diagnostics import kernel_ucb_curve, sup_kernel_ucb_values
from kernelbandits.experiments.figures import DARK, LIGHT, Bound, Curve, png, regret_figure, svg
from kernelbandits.experiments.page import Page, render
from kernelbandits.experiments.results import CONFIDENCE, Result, mean_band, summarize
from kernelbandits.experiments.terminal import HEADINGS, cells
from kernelbandits.validation import pluralize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DemoResult", "run_demo"]


@dataclass(frozen=True, kw_only=True, eq=False)
class DemoResult:
    """What the demo found, and where it wrote it."""

    comparison: Comparison
    rows: tuple[Result, ...]
    """The table, lowest regret first."""

    bounds: Mapping[str, float]
    """Proved regret at the end, mean over seeds, by policy."""

    remarks: tuple[str, ...]
    files: Mapping[str, Path]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "horizon": self.comparison.horizon,
            "n_seeds": len(self.comparison.seeds),
            "confidence": CONFIDENCE,
            "policies": [row.to_dict() for row in self.rows],
            "bounds": dict(self.bounds),
            "remarks": list(self.remarks),
            "parameters": self.comparison.describe(),
            "versions": versions(),
            "files": {kind: str(path) for kind, path in self.files.items()},
        }


def run_demo(
    into: str | PathLike[str] = "demo",
    *,
    horizon: int = study.HORIZON,
    n_seeds: int = study.N_SEEDS,
    progress: Callable[[], None] | None = None,
) -> DemoResult:
    """Play the study, and write `regret.png`, `index.html` and `results.json` into a folder.

    Parameters
    ----------
    into
        The folder; it is made when it is not there.
    horizon, n_seeds
        Rounds of each run, and runs of each policy.
    progress
        Called after every round of every run.
    """
    import_optional("matplotlib", "This part of experiments")
    comparison = study.demo_comparison(horizon=horizon, n_seeds=n_seeds)
    folder = writable_folder(into)  # before the long part, so that a bad name costs no time
    with one_blas_thread():
        traces = comparison.run(progress)

    bounds = _bounds(traces)
    at_the_end = {study.PROVED: float(bounds[0].values[-1]), study.SUP_PROVED: float(bounds[1].values[-1])}
    result = DemoResult(
        comparison=comparison,
        rows=summarize(traces, reference=study.RANDOM),
        bounds=at_the_end,
        remarks=text.remarks(traces, at_the_end),
        files={"figure": folder / "regret.png", "page": folder / "index.html", "results": folder / "results.json"},
    )
    curves = [
        Curve(label=name, color=study.COLORS[name], band=mean_band([run.regret for run in runs]))
        for name, runs in traces.items()
    ]
    draw = partial(regret_figure, curves, bounds=bounds)
    result.files["figure"].write_bytes(png(draw(caption=text.caption(comparison))))
    result.files["page"].write_text(render(_page(result, draw)), encoding="utf-8")
    result.files["results"].write_text(json.dumps(result.to_dict(), indent=2) + "\n", encoding="utf-8")
    return result


def _bounds(traces: Mapping[str, Sequence[Trace]]) -> tuple[Bound, Bound]:
    rounds, values = kernel_ucb_curve(traces[study.PROVED], regularization=study.REGULARIZATION)
    sup = sup_kernel_ucb_values(
        traces[study.SUP_PROVED],
        kernel=study.KERNEL,
        regularization=study.REGULARIZATION,
        norm_bound=study.NORM,
        noise_scale=study.WORLD.noise_scale,
        failure_probability=study.FAILURE_PROBABILITY,
    )
    horizon = len(traces[study.PROVED][0])
    return (
        Bound(
            label=r"KernelUCB: $2\,\eta_t\sqrt{\kappa\,t\,L_t}$",
            color=study.COLORS[study.PROVED],
            rounds=rounds,
            values=values,
        ),
        Bound(
            label=r"SupKernelUCB, whole run: $\tilde d$ form",
            color=study.COLORS[study.SUP_PROVED],
            rounds=np.array([1, horizon]),  # regret never falls, so what bounds it at the end bounds it before
            values=np.full(2, sup.mean()),
        ),
    )


def _page(result: DemoResult, draw: Callable[..., Figure]) -> Page:
    comparison = result.comparison
    return Page(
        title=text.TITLE,
        introduction=text.INTRODUCTION,
        light_figure=svg(draw(theme=LIGHT)),
        dark_figure=svg(draw(theme=DARK)),
        description=f"Cumulative regret over {pluralize(comparison.horizon, 'round')}, lowest first: "
        + "; ".join(f"{row.policy} {row.regret.mean:.0f}" for row in result.rows),
        caption=text.caption(comparison),
        headings=("Policy", *HEADINGS),
        rows=[(row.policy, *cells(row)) for row in result.rows],
        remarks=result.remarks,
        parameters={**comparison.describe(), "Versions": versions()},
    )
