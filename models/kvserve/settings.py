"""Server settings: a TOML file, overridden by flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from kvserve.errors import ConfigError

_TYPES: dict[str, tuple[type, ...]] = {
    "checkpoint": (str,),
    "model_name": (str,),
    "host": (str,),
    "port": (int,),
    "api_keys_file": (str,),
    "max_seq_len": (int,),
    "queue_size": (int,),
    "threads": (int,),
    "drain_timeout": (int, float),
}


@dataclass(frozen=True)
class Settings:
    """Everything ``kvserve serve`` can be told. Times are in seconds.

    Raises ``ConfigError`` naming the setting that is out of range.
    """

    checkpoint: str
    model_name: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    api_keys_file: str | None = None
    max_seq_len: int | None = None
    queue_size: int = 64
    threads: int | None = None
    drain_timeout: float = 30.0

    def __post_init__(self) -> None:
        if not self.checkpoint:
            raise ConfigError("checkpoint is empty; give the path of a .gguf file")
        if not self.model_name:
            object.__setattr__(self, "model_name", Path(self.checkpoint).stem)
        limits = {
            "port": (1, 65535),
            "max_seq_len": (1, None),
            "queue_size": (0, None),
            "threads": (1, os.cpu_count()),
            "drain_timeout": (0, 86400),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            # Written so that NaN, which is neither, fails too.
            if value is not None and not (low <= value and (high is None or value <= high)):
                bounds = f"{low} to {high}" if high is not None else f"at least {low}"
                raise ConfigError(f"{name} is {value}; it must be {bounds}")

    def check_files(self) -> None:
        """Raise ``ConfigError`` unless the checkpoint is there and the key file, if any, is usable."""
        if not Path(self.checkpoint).is_file():
            raise ConfigError(f"checkpoint {self.checkpoint} is not a file; fetch it or correct the path")
        if self.api_keys_file is not None:
            from kvserve.gate import read_api_keys

            read_api_keys(self.api_keys_file)

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values."""
        return asdict(self)


def load_settings(file: str | Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Settings from a TOML ``file`` (or none) under ``overrides``, whose None values are left out.

    Raises ``ConfigError`` for a file that cannot be read, an unknown key, or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"config {file} cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"config {file} is not valid TOML: {error}") from error
    known = [field.name for field in fields(Settings)]
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ConfigError(
            f"config {file} has unknown keys {', '.join(unknown)}; known are {', '.join(known)}"
        )
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, _TYPES[name]):
            expected = (
                "a number"
                if float in _TYPES[name]
                else "a whole number"
                if int in _TYPES[name]
                else "a string"
            )
            raise ConfigError(f"config {file}: {name} is {value!r}; it must be {expected}")
    values |= {name: value for name, value in overrides.items() if value is not None}
    if "checkpoint" not in values:
        raise ConfigError("no checkpoint; give --checkpoint, or `checkpoint = ...` in the config file")
    return Settings(**values)
