"""Exceptions and warnings of the library.

KernelBanditError
├── InvalidParameter         a constructor argument violates its rule
├── InvalidContexts          NaN, wrong shape or dtype, an empty set, the wrong kind of point
├── InvalidReward            NaN, infinite, or outside the declared range
├── UnknownItem              an id that is not in the table
├── NotPositiveSemidefinite  an indefinite similarity; names the repair
├── DecisionError            a decision that cannot be used here
│   ├── AlreadyLearnt
│   ├── NotLearnt            amend or unlearn of a decision that was never learned
│   └── ForeignDecision      made by a differently configured policy
├── AllowanceSpent           no action of a round costs as little as what is left
├── NotAssignable            a parameter that cannot be assigned to an existing policy
├── NotSupported             the algorithm or kernel is not defined for this
├── SavedFileError
│   ├── DamagedFile
│   ├── ForeignFile
│   ├── NewerFile
│   └── CannotSave           points or kernels with no pickle-free form
├── NumericalError
├── OutOfMemory              the next array does not fit into the memory of the device
├── DataUnavailable          data cannot be downloaded now
├── StudyIncomplete          some jobs of a study failed; the others are stored
├── FolderInUse              another run writes into the folder
└── MissingExtra             an optional package is not installed

KernelBanditWarning
├── IllConditioned           the regularization is too small for double precision
└── GuaranteeVoid            an assumption of a named exploration schedule does not hold

Each error is also a subclass of the expected built-in exception. Each message states the rule, the value and a
remedy.
"""

import sys
import warnings

from kernelbandits._text import encodable

__all__ = [
    "AllowanceSpent",
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
    "NotAssignable",
    "NotLearnt",
    "NotPositiveSemidefinite",
    "NotSupported",
    "NumericalError",
    "OutOfMemory",
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
    """A constructor argument violates its rule."""


class InvalidContexts(KernelBanditError, ValueError):
    """The contexts of a round cannot be used: NaN, shape, dtype, empty set, wrong kind of point."""


class InvalidReward(KernelBanditError, ValueError):
    """A reward is not a finite number, or lies outside the declared range."""


class UnknownItem(KernelBanditError, LookupError):
    """An id that is not in the table."""


class NotPositiveSemidefinite(KernelBanditError, ValueError):
    """An indefinite similarity; the message names the repair."""


class DecisionError(KernelBanditError, ValueError):
    """A decision that cannot be used here."""


class AlreadyLearnt(DecisionError):
    """The reward of this decision was learned before."""


class NotLearnt(DecisionError):
    """The decision to amend or unlearn was never learned."""


class ForeignDecision(DecisionError):
    """The decision was made by a differently configured policy."""


class AllowanceSpent(KernelBanditError, ValueError):
    """No action of a round costs as little as what is left of an allowance."""


class NotAssignable(KernelBanditError, AttributeError):
    """A parameter cannot be assigned to an existing policy."""


class NotSupported(KernelBanditError, TypeError):
    """The algorithm or kernel is not defined for this."""


class SavedFileError(KernelBanditError, ValueError):
    """A saved file cannot be used."""


class DamagedFile(SavedFileError):
    """The file's bytes differ from those that were written."""


class ForeignFile(SavedFileError):
    """The file has an unrecognized format, or contains something this call cannot open."""


class NewerFile(SavedFileError):
    """The file was written by a later version."""


class CannotSave(SavedFileError):
    """Points or kernels that have no pickle-free form."""


class NumericalError(KernelBanditError, ArithmeticError):
    """Rounding errors make the result meaningless."""


class OutOfMemory(KernelBanditError, MemoryError):
    """An array does not fit into the memory of the device; nothing was allocated."""


class DataUnavailable(KernelBanditError, OSError):
    """Data cannot be downloaded now; the message names an alternative source."""


class StudyIncomplete(KernelBanditError, RuntimeError):
    """Some jobs of a study failed; the others are stored, and running the study again runs only the missing ones."""

    def __init__(self, message: str, failures: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.failures = failures or {}
        """Full error text per job."""


class FolderInUse(KernelBanditError, RuntimeError):
    """Another run writes into the folder."""


class MissingExtra(KernelBanditError, ImportError):
    """An optional package is not installed; the message names the command that adds it."""


class KernelBanditWarning(UserWarning):
    """Root of all warnings of this library."""


class IllConditioned(KernelBanditWarning):
    """The regularization is so small that widths are inaccurate."""


class GuaranteeVoid(KernelBanditWarning):
    """An assumption of a named exploration schedule does not hold."""


def warn_user(message: str, category: type[KernelBanditWarning]) -> None:
    """Issue a warning that refers to the calling line outside this library."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kernelbandits."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
