"""Studies: policies in the same environments, with results, figures, tables and reports.

`run_demo`, or `kernelbandits demo` from a terminal, is a first example: KernelUCB and related policies on a nonlinear
problem, with a table, figures with proved bounds, and a self-contained page. A `Study` describes policies, parameters,
environments and seeds; `run` runs it in many processes and stores results in a folder that survives interruptions;
`report` writes a page, figures and tables from such a folder; `tune` ranks settings. `run_policy_suite` runs every
policy of the library on six problems.

Figures need matplotlib and tables in a terminal need rich: `pip install "kernelbandits[experiments]"`.
"""

from kernelbandits.experiments.demo import DemoResult, demo_study, run_demo
from kernelbandits.experiments.plotting.curves import Bound, Curve, regret_figure
from kernelbandits.experiments.policy_spec import Grid, PolicySpec, RunInfo
from kernelbandits.experiments.policy_suite import run_policy_suite, suite_studies, tune_policy_suite
from kernelbandits.experiments.reports.report import report
from kernelbandits.experiments.results import Band, EndValue, Result, Results, mean_band, summarize
from kernelbandits.experiments.runner import run
from kernelbandits.experiments.study import Study
from kernelbandits.experiments.tuning import Ranking, tune

__all__ = [
    "Band",
    "Bound",
    "Curve",
    "DemoResult",
    "EndValue",
    "Grid",
    "PolicySpec",
    "Ranking",
    "Result",
    "Results",
    "RunInfo",
    "Study",
    "demo_study",
    "mean_band",
    "regret_figure",
    "report",
    "run",
    "run_demo",
    "run_policy_suite",
    "suite_studies",
    "summarize",
    "tune",
    "tune_policy_suite",
]
