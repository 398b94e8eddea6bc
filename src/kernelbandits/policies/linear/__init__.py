"""Policies whose rewards are linear in the features.

`LinUCB` is the one to try first; `OFUL` is the same with a proved radius, and can switch rarely. `SupLinUCB` and
`SupLinRel` eliminate by levels. `ConfidenceBall`, `UncertaintyEllipsoid` and `PEGE` are for one fixed set of actions.
"""

from kernelbandits.policies.linear.confidence_ball import ConfidenceBall
from kernelbandits.policies.linear.lin_ucb import LinUCB
from kernelbandits.policies.linear.oful import OFUL
from kernelbandits.policies.linear.pege import PEGE
from kernelbandits.policies.linear.sup_lin_rel import SupLinRel
from kernelbandits.policies.linear.sup_lin_ucb import SupLinUCB
from kernelbandits.policies.linear.uncertainty_ellipsoid import UncertaintyEllipsoid

__all__ = ["OFUL", "PEGE", "ConfidenceBall", "LinUCB", "SupLinRel", "SupLinUCB", "UncertaintyEllipsoid"]
