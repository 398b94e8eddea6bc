"""Adapters for other libraries: scikit-learn, text encoders, coba, Open Bandit Pipeline, Vowpal Wabbit, data frames.

`KernelUCBRegressor` is the estimate of mean and width as a regressor of scikit-learn. `CachedEncoder` gives the
embeddings of texts by any encoder. `CobaLearner` runs a policy in an experiment of coba, `CobaEnvironment` runs a
policy in a simulation of coba. Logs are read from and written to decision-service lines and text of Vowpal Wabbit
(`read_dsjson`, `read_adf_text`), dictionaries of the Open Bandit Pipeline (`from_obp`) and tables of pandas, polars,
Arrow and DuckDB (`log_from_frame`).

The package can be imported without any of these libraries; a call that needs one raises `MissingExtra`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelbandits.adapters.coba import CobaEnvironment, CobaLearner, CobaPoints, from_coba
from kernelbandits.adapters.embeddings import CachedEncoder
from kernelbandits.adapters.frames import log_from_frame, log_to_frame, trace_to_frame
from kernelbandits.adapters.obp import from_obp, to_obp
from kernelbandits.adapters.vowpal_wabbit.dsjson import read_dsjson, write_dsjson
from kernelbandits.adapters.vowpal_wabbit.log import Vocabulary, VowpalLog
from kernelbandits.adapters.vowpal_wabbit.text import read_adf_text, write_adf_text

if TYPE_CHECKING:
    from kernelbandits.adapters.scikit_learn import KernelUCBRegressor

__all__ = [
    "CachedEncoder",
    "CobaEnvironment",
    "CobaLearner",
    "CobaPoints",
    "KernelUCBRegressor",
    "Vocabulary",
    "VowpalLog",
    "from_coba",
    "from_obp",
    "log_from_frame",
    "log_to_frame",
    "read_adf_text",
    "read_dsjson",
    "to_obp",
    "trace_to_frame",
    "write_adf_text",
    "write_dsjson",
]


def __getattr__(name: str) -> Any:
    """Import scikit-learn when its regressor is first accessed."""
    if name == "KernelUCBRegressor":
        from kernelbandits.adapters.scikit_learn import KernelUCBRegressor

        return KernelUCBRegressor
    raise AttributeError(f"module 'kernelbandits.adapters' has no attribute {name!r}")
