"""The highest upper confidence bound without computing all of them.

A `Catalog` holds actions that are asked about again and again; hand it to `choose` in place of an array. Policies
keep a `CatalogEngine` for it, which follows their posterior and answers exactly what brute force would. `Screening`
does so for actions that are new in every round. `set_threads` limits the threads of the whole library, `compile_ahead`
compiles its loops before the first round.
"""

from kernelbandits._threads import set_threads
from kernelbandits.selection.ahead import compile_ahead
from kernelbandits.selection.catalog import Catalog, CatalogView
from kernelbandits.selection.catalog_engine import CatalogEngine
from kernelbandits.selection.screening import Screening, screened, tied_in_each
from kernelbandits.selection.ties import tied_for_best

__all__ = [
    "Catalog",
    "CatalogEngine",
    "CatalogView",
    "Screening",
    "compile_ahead",
    "screened",
    "set_threads",
    "tied_for_best",
    "tied_in_each",
]
