"""Studies that survive interruptions: a frozen description, its runner, and a folder of results.

`Study` says what is played, in Python or in a TOML file; `run` plays it, in processes or on Ray, and can be killed and
started again at any moment; `Results` reads what it left, as does anything that reads Parquet.
"""

from kernelbandits.experiments.studies.contender import Contender
from kernelbandits.experiments.studies.grid import Grid
from kernelbandits.experiments.studies.results import EndValue, Results, Standing
from kernelbandits.experiments.studies.runner import run
from kernelbandits.experiments.studies.study import Study

__all__ = ["Contender", "EndValue", "Grid", "Results", "Standing", "Study", "run"]
