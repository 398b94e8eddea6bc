"""Kernels: positive semi-definite similarities between points, the user's modeling choice.

A kernel k(x, z) states how much the reward of z informs about the reward of x. Numeric rows: try `Gaussian` first,
with `median_length_scale` as its length scale; `Linear` if effects are additive. Strings: `Spectrum`, or `TfIdf` if
there is a corpus. Sets: `Jaccard`. Similarities only: `Precomputed`, after `repair` if they are indefinite. A context
shared by all actions of a round: `PairProduct` of a kernel for contexts and one for actions. Kernels are immutable and
are combined with `+`, `*` and numbers; functions, scikit-learn kernels and square matrices are accepted wherever a
kernel is (`as_kernel`). For long histories of new points, `QuadratureFourier` and `RandomFourier` replace a stationary
kernel by finitely many features.

Every kernel has a `kind` (a `PointKind`), which defines the type of its points. The rest of the library handles points
through it and never inspects them.
"""

from kernelbandits.kernels.base import Kernel
from kernelbandits.kernels.composite import Columns, Normalized, Product, Scaled, Sum
from kernelbandits.kernels.discrete import Delta, Jaccard
from kernelbandits.kernels.fourier_features import QuadratureFourier, RandomFourier
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
    "QuadratureFourier",
    "RandomFourier",
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
    "repair",
    "unpack_kernel",
]
