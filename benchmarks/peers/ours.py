"""kernelbandits, by its public path."""

from __future__ import annotations

from typing import Any, Final

import kernelbandits as kb
from benchmarks.peers.base import Peer, Setting
from benchmarks.workloads import KernelSpec, Matrix

__all__ = ["PEER", "fixed", "kernel_of"]


def kernel_of(kernel: KernelSpec) -> kb.kernels.Kernel:
    """Our kernel for the specification."""
    if kernel.family == "linear":
        return kb.kernels.Linear()
    if kernel.family == "matern 1/2":
        return kb.kernels.Matern(smoothness=0.5, length_scale=kernel.length_scale)
    return kb.kernels.Gaussian(length_scale=kernel.length_scale)


def start(setting: Setting) -> kb.KernelUCB:
    """A policy with its defaults: which engine it takes is its own business."""
    return kb.KernelUCB(
        kernel_of(setting.kernel), regularization=setting.regularization, exploration=setting.exploration
    )


def fixed(contexts: Matrix) -> Any:
    """A catalog, where this version of the library has one; otherwise the rows themselves."""
    catalog = getattr(kb, "Catalog", None)
    return contexts if catalog is None else catalog(contexts)


PEER: Final = Peer(name="kernelbandits", start=start, fixed=fixed)
