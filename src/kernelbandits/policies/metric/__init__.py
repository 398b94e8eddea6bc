"""Policies that know distances between actions, and nothing else about them."""

from kernelbandits.policies.metric.contextual_zooming import ContextualZooming

__all__ = ["ContextualZooming"]
