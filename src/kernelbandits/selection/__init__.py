"""Search for the action with the highest upper confidence bound, without scoring every action.

A `Catalog` holds actions that are queried in many rounds; pass it to `choose` in place of an array. A policy stores one
`CatalogEngine` per catalog. The engine is synchronized with the posterior and returns exactly the result of exhaustive
scoring. `Screening` does the same for actions that are new in every round. `set_threads` limits the threads of the
whole library. `compile_ahead` compiles the kernels before the first round.

A `Box` holds continuous actions, and `Product` joins a context with one: `GradientSearch` finds the best point.
"""

from kernelbandits._compile import compile_ahead
from kernelbandits._threads import set_threads
from kernelbandits.selection.box import Box, GradientSearch, Product
from kernelbandits.selection.catalog import Catalog, CatalogView
from kernelbandits.selection.catalog_engine import CatalogEngine
from kernelbandits.selection.screening import Screening, screened, tied_in_each
from kernelbandits.selection.ties import tied_for_best

__all__ = [
    "Box",
    "Catalog",
    "CatalogEngine",
    "CatalogView",
    "GradientSearch",
    "Product",
    "Screening",
    "compile_ahead",
    "screened",
    "set_threads",
    "tied_for_best",
    "tied_in_each",
]
