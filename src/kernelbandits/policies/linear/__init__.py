"""Policies whose rewards are linear in the features."""

from kernelbandits.policies.linear.confidence_ball import ConfidenceBall
from kernelbandits.policies.linear.lin_ucb import LinUCB
from kernelbandits.policies.linear.oful import OFUL
from kernelbandits.policies.linear.sup_lin_ucb import SupLinUCB

__all__ = ["OFUL", "ConfidenceBall", "LinUCB", "SupLinUCB"]
