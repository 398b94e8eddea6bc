"""Queries of many points of a projection on another device, by products with inverse factors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kernelbandits.posterior._projection import Located, Projection, checked_residual
from kernelbandits.posterior.cholesky import GrowingCholesky
from kernelbandits.posterior.device import Device, InverseFactor, computes_on_device
from kernelbandits.types import Matrix, Points, Vector

__all__ = ["DeviceQueries"]

FEW_ROWS: Final = 16
"""Number of new rows of a factor up to which each is appended to its inverse alone."""


class _Inverse:
    """Inverse of a growing factor on the device; rows are appended as the factor grows."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._factor: GrowingCholesky | None = None
        self._version = -1
        self.inverse = InverseFactor(device)

    def of(self, factor: GrowingCholesky, rows: Matrix, version: int) -> InverseFactor:
        """Inverse of the factor, which is in the corner of `rows`; other versions have lost rows in between."""
        size, device = factor.size, self._device
        if factor is not self._factor or version != self._version:
            self._factor, self._version, self.inverse = factor, version, InverseFactor(device)
        known = self.inverse.size
        self.inverse.reserve(size)
        if size - known <= FEW_ROWS:
            for row in range(known, size):
                self.inverse.append(device.array(rows[row, :row]), float(rows[row, row]))
        else:
            xp, left = device.xp, device.array(rows[known:size, :known].T)
            corner = device.array(np.tril(rows[known:size, known:size]))
            identity = xp.eye(size - known, dtype=xp.float64, device=device.device)
            self.inverse.append_many(left, xp.linalg.solve(corner, identity))
        return self.inverse


class DeviceQueries:
    """Means and widths of many points by matrix products on a device: z = L⁻¹ k, v = F⁻¹ z and c = U v.

    What it keeps on the device is derived from the projection: never saved and never copied.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lower, self._factor = _Inverse(device), _Inverse(device)
        self._atoms: Any = None
        self._n_atoms = -1

    def __reduce__(self) -> tuple[type[DeviceQueries], tuple[Device]]:
        return DeviceQueries, (self.device,)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceQueries:
        return DeviceQueries(self.device)

    def locate(self, projection: Projection, points: Points, prior: Vector) -> Located:
        """Points with these k(x, x), without the coordinates, which stay on the device."""
        device, xp, size = self.device, self.device.xp, projection.size
        lower, factor, changes, target, version = projection.arrays()
        before = self._lower.inverse
        inverse = self._lower.of(projection.lower, lower, version)
        is_grown = inverse is not before or self._n_atoms != size
        similarity = self._similarity(projection, points, is_new=is_grown)
        coordinates = inverse.apply(similarity)
        whitened = self._factor.of(projection.factor, factor, version).apply(coordinates)
        squares = xp.sum(whitened * whitened, axis=0)
        if len(changes):
            changed = device.array(changes) @ whitened
            squares = squares - xp.sum(changed * changed, axis=0)
        lengths, explained, mean = device.numpy(
            xp.stack([xp.sum(coordinates * coordinates, axis=0), squares, device.array(target) @ whitened])
        )
        nothing = np.zeros((0, len(prior)))
        residual = checked_residual(projection.kernel, prior, prior - lengths)
        return Located(prior, nothing, nothing, nothing, residual, mean, np.maximum(explained, 0.0))

    def _similarity(self, projection: Projection, points: Points, *, is_new: bool) -> Any:
        """k(atom, x) on the device, computed there if the kernel is a formula of rows."""
        device, kernel = self.device, projection.kernel
        if not computes_on_device(kernel, points):
            return device.array(kernel.gram(projection.points, points))
        if is_new:
            self._atoms, self._n_atoms = device.array(projection.points), projection.size
        return kernel.gram(self._atoms, device.array(points))
