"""Methods of the paper's comparison, included for benchmarks rather than for use.

`UCB1` and `KLUCB` compute one index per action, `ContextualZooming` uses distances only, and `GridGP` evaluates each
point of a grid once, for noise-free rewards. `SupLinRel`, `ConfidenceBall`, `UncertaintyEllipsoid` and `PEGE` are
linear; the last three are defined for one fixed action set.
"""

from kernelbandits.policies.comparators.confidence_ball import ConfidenceBall
from kernelbandits.policies.comparators.grid_gp import GridGP
from kernelbandits.policies.comparators.index import KLUCB, UCB1
from kernelbandits.policies.comparators.spanning import PEGE, UncertaintyEllipsoid
from kernelbandits.policies.comparators.sup_lin_rel import SupLinRel
from kernelbandits.policies.comparators.zooming import ContextualZooming

__all__ = [
    "KLUCB",
    "PEGE",
    "UCB1",
    "ConfidenceBall",
    "ContextualZooming",
    "GridGP",
    "SupLinRel",
    "UncertaintyEllipsoid",
]
