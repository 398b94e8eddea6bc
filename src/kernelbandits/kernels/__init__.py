"""Similarities k(x, z): one class each, composed with +, * and numbers."""

from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.combine import Columns, Normalised, Product, Scaled, Sum
from kernelbandits.kernels.linear import Constant, Cosine, Linear, Polynomial
from kernelbandits.kernels.pairs import PairPoints
from kernelbandits.kernels.points import PointKind
from kernelbandits.kernels.rows import Rows
from kernelbandits.kernels.sequences import Ids, Objects, Sets, Strings
from kernelbandits.kernels.stationary import Gaussian, Laplacian, Matern, RationalQuadratic, median_length_scale

__all__ = [
    "Columns",
    "Constant",
    "Cosine",
    "Gaussian",
    "Ids",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalised",
    "Objects",
    "PairPoints",
    "PointKind",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Rows",
    "Scaled",
    "Sets",
    "Strings",
    "Sum",
    "median_length_scale",
]
