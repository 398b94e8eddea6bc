"""What is accepted wherever a kernel is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kernelbandits.kernels import Kernel
from kernelbandits.types import Matrix

__all__ = ["KernelLike"]

KernelLike: TypeAlias = Kernel | Matrix | Callable[..., Matrix] | object
