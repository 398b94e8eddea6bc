"""Studies: policies side by side in the same worlds, and what they leave on paper.

`run_demo` is the one to try first, or `kernelbandits demo` from a terminal: KernelUCB beside its relatives on a
non-linear problem, with a table, a figure with the proved bounds over it, and one self-contained page. The pieces
serve studies of your own: `Comparison` plays every policy in the same worlds, `summarize` makes the table,
`regret_figure` the plot. For studies that take longer there is `Study` with `run`: many policies and parameters, many
processes, results in files that survive interruptions. `report` makes a page, figures and tables of such a folder;
`tune` ranks settings.

Figures need matplotlib and tables in a terminal need rich: `pip install "kernelbandits[experiments]"`.
"""

from kernelbandits.experiments.comparison import Comparison
from kernelbandits.experiments.demo import DemoResult, run_demo
from kernelbandits.experiments.demo_study import demo_comparison
from kernelbandits.experiments.figures import Bound, Curve, regret_figure
from kernelbandits.experiments.policy_spec import Grid, PolicySpec
from kernelbandits.experiments.reporting import report
from kernelbandits.experiments.results import Band, EndValue, Result, Results, mean_band, summarize
from kernelbandits.experiments.runner import run
from kernelbandits.experiments.study import Study
from kernelbandits.experiments.tuning import Ranking, tune

__all__ = [
    "Band",
    "Bound",
    "Comparison",
    "Curve",
    "DemoResult",
    "EndValue",
    "Grid",
    "PolicySpec",
    "Ranking",
    "Result",
    "Results",
    "Study",
    "demo_comparison",
    "mean_band",
    "regret_figure",
    "report",
    "run",
    "run_demo",
    "summarize",
    "tune",
]
