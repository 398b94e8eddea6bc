"""Own files: Python files of a user whose classes and functions a study file may name."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, Final, TypeAlias

from kernelbandits.errors import InvalidParameter
from kernelbandits.validation import check_path, short_repr

__all__ = ["OwnClass", "OwnFile", "OwnName", "collect_names"]

OwnClass: TypeAlias = type | Callable[..., Any]
"""A class or a function."""

DIGITS: Final = 16
"""Digits of a file's digest in the name of its module: two versions of a file are two modules."""

_loading: Final = RLock()


@dataclass(frozen=True)
class OwnFile:
    """Python file with classes and functions that a study file may name.

    The file is read once. This content is run in every process and on every machine of a study, and its digest is part
    of the ids of the jobs that use it. Unpickling runs it, so that the classes of the file can be unpickled afterwards.

    Parameters
    ----------
    path
        Where it was read.
    content
        What was read.
    """

    path: str
    content: bytes = field(repr=False)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> OwnFile:
        """Read a file; it is run when its names are needed."""
        file = Path(check_path(path))
        try:
            return cls(str(file), file.read_bytes())
        except OSError as error:
            raise InvalidParameter(f"The file {str(file)!r} cannot be read: {error.strerror}.") from error

    @property
    def name(self) -> str:
        """Name of the file without its folder."""
        return Path(self.path).name

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""
        return sha256(self.content).hexdigest()

    @property
    def module_name(self) -> str:
        """Name under which it is imported."""
        return f"{re.sub(r'[^0-9A-Za-z_]', '_', Path(self.path).stem)}_{self.digest[:DIGITS]}"

    def load(self) -> ModuleType:
        """The module, run once per process; errors of the file are raised as they are."""
        with _loading:
            module = sys.modules.get(self.module_name)
            if module is None:
                module = ModuleType(self.module_name)
                module.__file__ = self.path
                sys.modules[self.module_name] = module  # dataclasses look their module up
                try:
                    exec(compile(self.content, self.path, "exec"), vars(module))
                except BaseException:
                    del sys.modules[self.module_name]
                    raise
            return module

    def classes(self) -> dict[str, OwnClass]:
        """Public classes and functions by name: those of `__all__`, or all that the file defines itself."""
        try:
            module = self.load()
        except (Exception, SystemExit) as error:  # the file may raise anything
            raise InvalidParameter(
                f"{self.path} could not be run: {type(error).__name__}: {error}{self._line(error)}. Fix the file; "
                'what is no definition belongs below `if __name__ == "__main__":`.'
            ) from error
        listed = getattr(module, "__all__", None)
        found = {
            name: getattr(module, name, None)
            for name in (vars(module) if listed is None else listed)
            if listed is not None or not name.startswith("_")
        }
        own: dict[str, OwnClass] = {
            name: value
            for name, value in found.items()
            if (inspect.isclass(value) or inspect.isroutine(value))
            and (listed is not None or getattr(value, "__module__", None) == module.__name__)
        }
        if not own:
            raise InvalidParameter(
                f"{self.path} defines no public class and no public function, so a study can name nothing of it."
            )
        return own

    def _line(self, error: BaseException) -> str:
        """The line at which the file failed, as the end of a message."""
        if isinstance(error, SyntaxError):
            return ""  # its message has the line
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.path]
        return f" (line {lines[-1]})" if lines else ""

    def __reduce__(self) -> tuple[Callable[..., OwnFile], tuple[str, bytes]]:
        return _loaded, (self.path, self.content)


def _loaded(path: str, content: bytes) -> OwnFile:
    file = OwnFile(path, content)
    file.load()
    return file


@dataclass(frozen=True)
class OwnName:
    """Own class or function that a name in a study file refers to, and the file that defines it."""

    value: OwnClass
    file: OwnFile | None
    """The file that was given by its path; None for a class that was given itself."""


def collect_names(
    classes: Sequence[OwnClass | str | PathLike[str]], *, taken: Mapping[str, type]
) -> dict[str, OwnName]:
    """Names that classes and files give to a study file; InvalidParameter if two are equal or one is taken.

    Parameters
    ----------
    classes
        Classes and functions, and paths of Python files.
    taken
        Classes of the library by name.
    """
    if isinstance(classes, str | PathLike) or not isinstance(classes, Sequence):
        raise InvalidParameter(f'Classes of your own are a list: classes=["mine.py"], got {short_repr(classes)}.')
    names: dict[str, OwnName] = {}
    files: dict[str, OwnFile] = {}
    for given in classes:
        file = OwnFile.read(given) if isinstance(given, str | PathLike) else None
        if file is not None and files.setdefault(file.name, file).digest != file.digest:
            raise InvalidParameter(f"Two files are called {file.name!r}. Rename one: results keep both of them.")
        for name, value in _named(given, file).items():
            where = "The classes given" if file is None else file.path
            other = names.get(name)
            if name in taken:
                raise InvalidParameter(
                    f"{where}: {name!r} is the name of a class of this library, so a study could not say which is "
                    "meant. Rename yours."
                )
            if other is not None and other.value is not value:
                raise InvalidParameter(
                    f"{where}: {name!r} is given twice"
                    + ("" if other.file is None else f", also by {other.file.path}")
                    + ". Rename one."
                )
            names[name] = OwnName(value, file)
    return names


def _named(given: Any, file: OwnFile | None) -> dict[str, OwnClass]:
    if file is not None:
        return file.classes()
    if not (inspect.isclass(given) or inspect.isroutine(given)):
        raise InvalidParameter(
            f"A class of your own is a class, a function, or the path of a Python file, got {short_repr(given)}."
        )
    return {given.__name__: given}
