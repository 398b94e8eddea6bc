"""Similarities between points: the part of a model that you choose.

A kernel k(x, z) says how much the reward of z tells about the reward of x. Rows of numbers: try `Gaussian` first, with
`median_length_scale` as its length scale; `Linear` where effects add up. Strings: `Spectrum`, or `TfIdf` when there is
a corpus. Sets: `Jaccard`. Nothing but similarities: `Precomputed`, after `repair` if they turn out to be no kernel. A
context that all actions of a round share: `PairProduct` of a kernel for contexts and one for actions. Kernels are
frozen and are put together with `+`, `*` and numbers; functions, scikit-learn kernels and square matrices are taken
wherever a kernel is (`as_kernel`).

Every kernel has a `kind` (a `PointKind`), which knows what its points are. The rest of the library handles points
through it and never looks inside one.
"""

from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.composite import Columns, Normalized, Product, Scaled, Sum
from kernelbandits.kernels.discrete import Delta, Jaccard
from kernelbandits.kernels.fourier_features import RandomFeatures, random_features
from kernelbandits.kernels.kinds import kind_of
from kernelbandits.kernels.labeled import Blocks, LabeledLinear
from kernelbandits.kernels.linear import Constant, Cosine, Linear, Polynomial
from kernelbandits.kernels.pairs import PairPoints, PairProduct, PairSum
from kernelbandits.kernels.points import PointKind
from kernelbandits.kernels.precomputed import Precomputed, TableIds
from kernelbandits.kernels.repair import RepairReport, detect, repair
from kernelbandits.kernels.rows import Rows
from kernelbandits.kernels.sequences import Ids, Objects, Sets, Strings
from kernelbandits.kernels.serialization import unpack_kernel
from kernelbandits.kernels.similarity_table import SimilarityTable
from kernelbandits.kernels.stationary import Gaussian, Laplacian, Matern, RationalQuadratic, median_length_scale
from kernelbandits.kernels.strings import Positionwise, Spectrum, TfIdf
from kernelbandits.kernels.wrappers import FromCallable, FromScikitLearn, KernelLike, as_kernel

__all__ = [
    "Blocks",
    "Columns",
    "Constant",
    "Cosine",
    "Delta",
    "FromCallable",
    "FromScikitLearn",
    "Gaussian",
    "Ids",
    "Jaccard",
    "Kernel",
    "KernelLike",
    "LabeledLinear",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalized",
    "Objects",
    "PairPoints",
    "PairProduct",
    "PairSum",
    "PointKind",
    "Polynomial",
    "Positionwise",
    "Precomputed",
    "Product",
    "RandomFeatures",
    "RationalQuadratic",
    "RepairReport",
    "Rows",
    "Scaled",
    "Sets",
    "SimilarityTable",
    "Spectrum",
    "Strings",
    "Sum",
    "TableIds",
    "TfIdf",
    "as_kernel",
    "detect",
    "kind_of",
    "median_length_scale",
    "random_features",
    "repair",
    "unpack_kernel",
]
