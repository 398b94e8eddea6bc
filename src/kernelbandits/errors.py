"""Everything that can go wrong, under one root.

KernelBanditError
├── InvalidParameter         a constructor argument breaks its rule
├── InvalidContexts          NaN, wrong shape or dtype, an empty set, the wrong kind of point
├── InvalidReward            NaN, infinite, or outside the declared range
├── UnknownItem              an id that no table knows
├── NotPositiveSemidefinite  a similarity that is no kernel; names the repair
├── DecisionError            a decision that cannot be used here
│   ├── AlreadyLearnt
│   ├── NotLearnt            amend or unlearn of what was never learnt
│   └── ForeignDecision      made by a differently configured policy
├── NotSupported             the algorithm or kernel is not defined for this
├── SavedFileError
│   ├── DamagedFile
│   ├── ForeignFile
│   ├── NewerFile
│   └── CannotSave           points or kernels with no pickle-free form
├── NumericalError
├── DataUnavailable          data that has to be fetched cannot be had now
├── StudyIncomplete          some jobs of a study failed; the others are kept
├── FolderInUse              another run writes into the folder
└── MissingExtra             an optional package is not installed

KernelBanditWarning
├── IllConditioned           the regularization is too small for double precision
└── GuaranteeVoid            an assumption of a named exploration schedule does not hold

Each error is also the built-in that a caller would expect. Each message states the rule, the value and the
way out.
"""

import sys
import warnings

from kernelbandits._text import encodable

__all__ = [
    "AlreadyLearnt",
    "CannotSave",
    "DamagedFile",
    "DataUnavailable",
    "DecisionError",
    "FolderInUse",
    "ForeignDecision",
    "ForeignFile",
    "GuaranteeVoid",
    "IllConditioned",
    "InvalidContexts",
    "InvalidParameter",
    "InvalidReward",
    "KernelBanditError",
    "KernelBanditWarning",
    "MissingExtra",
    "NewerFile",
    "NotLearnt",
    "NotPositiveSemidefinite",
    "NotSupported",
    "NumericalError",
    "SavedFileError",
    "StudyIncomplete",
    "UnknownItem",
    "warn_user",
]


class KernelBanditError(Exception):
    """Root of all errors of this library."""

    def __str__(self) -> str:
        return encodable(super().__str__())


class InvalidParameter(KernelBanditError, ValueError):
    """A constructor argument breaks its rule."""


class InvalidContexts(KernelBanditError, ValueError):
    """The contexts of a round cannot be used: NaN, shape, dtype, empty set, wrong kind of point."""


class InvalidReward(KernelBanditError, ValueError):
    """A reward is not a finite number, or lies outside the declared range."""


class UnknownItem(KernelBanditError, LookupError):
    """An id that no table knows."""


class NotPositiveSemidefinite(KernelBanditError, ValueError):
    """A similarity that is no kernel; the message names the repair."""


class DecisionError(KernelBanditError, ValueError):
    """A decision that cannot be used here."""


class AlreadyLearnt(DecisionError):
    """The reward of this decision was learnt before."""


class NotLearnt(DecisionError):
    """The decision to amend or unlearn was never learnt."""


class ForeignDecision(DecisionError):
    """The decision was made by a differently configured policy."""


class NotSupported(KernelBanditError, TypeError):
    """The algorithm or kernel is not defined for this."""


class SavedFileError(KernelBanditError, ValueError):
    """A saved file cannot be used."""


class DamagedFile(SavedFileError):
    """The file's bytes are not those that were written."""


class ForeignFile(SavedFileError):
    """The file is not one of ours, or holds something this call cannot open."""


class NewerFile(SavedFileError):
    """The file was written by a later version."""


class CannotSave(SavedFileError):
    """Points or kernels that have no pickle-free form."""


class NumericalError(KernelBanditError, ArithmeticError):
    """Rounding errors have eaten the answer."""


class DataUnavailable(KernelBanditError, OSError):
    """Data that has to be fetched cannot be had now; the message says where else it can come from."""


class StudyIncomplete(KernelBanditError, RuntimeError):
    """Some jobs of a study failed; the others are kept, and running the study again does only what is missing."""

    def __init__(self, message: str, failures: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.failures = failures or {}
        """What went wrong, in full, by job."""


class FolderInUse(KernelBanditError, RuntimeError):
    """Another run writes into the folder."""


class MissingExtra(KernelBanditError, ImportError):
    """An optional package is not installed; the message names the command that adds it."""


class KernelBanditWarning(UserWarning):
    """Root of all warnings of this library."""


class IllConditioned(KernelBanditWarning):
    """The regularization is so small that widths lose their digits."""


class GuaranteeVoid(KernelBanditWarning):
    """An assumption of a named exploration schedule does not hold."""


def warn_user(message: str, category: type[KernelBanditWarning]) -> None:
    """Warn, and name the line outside this library that led here."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kernelbandits."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
