"""Settings of the service: from the command line, the environment, a file, or the default, in this order."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from kernelbandits.errors import InvalidParameter
from kernelbandits.service.schemas import Limits

__all__ = ["Settings", "is_loopback"]

PREFIX: Final = "KERNELBANDITS_SERVICE_"
"""Of environment variables; `KERNELBANDITS_DATA` is the folder of data sets, which is no place for a database."""

FILE: Final = "kernelbandits.toml"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one server."""

    data: Path = Path("kernelbandits-data")
    """Folder of the database, the snapshots and the lock."""

    host: str = "127.0.0.1"
    port: int = 8090
    snapshot_rows: int = 5_000
    """Rows of the log between two snapshots; a restart replays at most about that many."""

    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", Path(self.data))
        for name in ("port", "snapshot_rows"):
            object.__setattr__(self, name, _whole(getattr(self, name), name))
        if not 0 <= self.port < 65_536:
            raise InvalidParameter(f"The port is a number from 0 to 65535, got {self.port}.")

    @property
    def database(self) -> Path:
        """Path of the database."""
        return self.data / "log.db"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """Address of the service."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @classmethod
    def read(cls, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Settings:
        """Settings from given values, then the environment, then the file in the data folder.

        `given` holds only what the command line names; `limits` is a table in the file, and
        `KERNELBANDITS_SERVICE_BODY=…` and the like in the environment.
        """
        names = {one.name for one in fields(cls)} - {"limits"}
        named = {name: environment[PREFIX + name.upper()] for name in names if PREFIX + name.upper() in environment}
        data = Path(given.get("data") or named.get("data") or cls.data)
        stored = _file(data / FILE)
        unknown = stored.keys() - names - {"limits"}
        if unknown:
            raise InvalidParameter(f"{data / FILE} has unknown settings: {', '.join(sorted(unknown))}.")
        limits = dict(stored.pop("limits", {}))
        for name in Limits.__struct_fields__:
            if PREFIX + name.upper() in environment:
                limits[name] = environment[PREFIX + name.upper()]
        try:
            checked = msgspec.convert(limits, Limits, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"A limit is not right: {error}.") from error
        values = {**stored, **named, **{name: value for name, value in given.items() if value is not None}}
        return cls(**{**values, "data": data}, limits=checked)

    def with_port(self, port: int) -> Settings:
        """The same with another port."""
        return replace(self, port=port)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address or as `localhost`; any other name can point anywhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _whole(value: Any, name: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"The setting {name!r} is a whole number, got {value!r}.") from error


def _file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path} is not valid TOML: {error}.") from error
