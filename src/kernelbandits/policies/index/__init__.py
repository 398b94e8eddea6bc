"""Policies for actions that tell nothing about each other: one index per action, the highest is played."""

from kernelbandits.policies.index.kl_ucb import KLUCB
from kernelbandits.policies.index.ucb1 import UCB1

__all__ = ["KLUCB", "UCB1"]
