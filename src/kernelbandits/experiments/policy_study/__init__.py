"""Every policy of the library on the same three problems: which is good at what.

`run_policy_study` plays them and writes a table, a figure and all numbers; `kernelbandits compare` does it from a
terminal. `problems` says what is played, `field` who plays and with which parameters.
"""

from kernelbandits.experiments.policy_study.field import FIELD, Contender
from kernelbandits.experiments.policy_study.problems import PROBLEMS, Problem, Setting
from kernelbandits.experiments.policy_study.study import PolicyStudy, run_policy_study

__all__ = ["FIELD", "PROBLEMS", "Contender", "PolicyStudy", "Problem", "Setting", "run_policy_study"]
