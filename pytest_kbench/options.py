"""The option table, and the frozen `Settings` that everything below the plugin reads.

One row per option: its flag, how its text becomes a value, and its help. The plugin adds the rows to pytest's parser,
`Settings.read` turns what was given into settings, and `Settings.flags` turns settings back into the flags that
reproduce them.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .record import CHECKS, CheckName


class OptionError(ValueError):
    """A value that an option does not take; the message names the option, the value and what it takes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to grade. Times are in seconds, memory in bytes; `None` leaves the choice to the part concerned."""

    checks: tuple[CheckName, ...] = CHECKS
    seed: int = field(default_factory=lambda: secrets.randbits(64))
    tolerance: float | None = None
    timeout: float = 30.0
    build_timeout: float = 180.0
    max_failures: int | None = None
    memory: int | None = None
    threads: int | None = None
    strict_sandbox: bool = False
    cache: Path | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, fine, what in (
            ("checks", all(check in CHECKS for check in self.checks), f"some of {', '.join(CHECKS)}"),
            ("seed", isinstance(self.seed, int) and 0 <= self.seed < 1 << 64, "an integer of at most 64 bits"),
            ("tolerance", self.tolerance is None or self.tolerance > 0, "a positive number"),
            ("timeout", self.timeout > 0, "a positive number of seconds"),
            ("build_timeout", self.build_timeout > 0, "a positive number of seconds"),
            ("max_failures", self.max_failures is None or self.max_failures > 0, "a positive number"),
            ("memory", self.memory is None or self.memory > 0, "a positive number of bytes"),
            ("threads", self.threads is None or self.threads > 0, "a positive number"),
            ("device", self.device == "cpu", "cpu; this version grades on the CPU"),
        ):
            if not fine:
                raise ValueError(f"Settings.{name}={getattr(self, name)!r}: it takes {what}")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Settings:
        """Settings from option values by field name; `None` keeps the default."""
        return cls(**{name: value for name, value in given.items() if value is not None})

    def flags(self) -> str:
        """The flags, other than the seed, that a command needs to grade as this run does."""
        default = replace(Settings(), seed=self.seed, checks=self.checks)
        shown = (
            option
            for option in OPTIONS
            if option.field and getattr(self, option.field) != getattr(default, option.field)
        )
        return " ".join(
            shlex.quote(f"{option.flag}={option.write(getattr(self, option.field or ''))}") for option in shown
        )


@dataclass(frozen=True, slots=True)
class Option:
    """One command-line option. `field` is the field of `Settings` that it sets, if any."""

    flag: str
    field: str | None
    help: str
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    metavar: str | None = None

    def value(self, text: str) -> Any:
        """The value of this text; raises `OptionError`."""
        try:
            return self.read(text)
        except ValueError as error:
            raise OptionError(f"{self.flag}={text}: {error}") from None


def _checks(text: str) -> tuple[CheckName, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or (unknown := [name for name in names if name not in CHECKS]):
        raise ValueError(
            f"choose from {', '.join(CHECKS)}, separated by commas" + (f"; not {', '.join(unknown)}" if names else "")
        )
    return tuple(check for check in CHECKS if check in names)


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
        raise ValueError("a seed is 1 to 16 hexadecimal digits")
    return int(text, 16)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("a positive number is needed") from None
    if not 0 < value < float("inf"):
        raise ValueError("a positive number is needed")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise ValueError("a whole number from 1 to 4096 is needed")
    return int(text)


UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(text: str) -> int:
    number, unit = (text[:-1], UNITS[text[-1]]) if text[-1:] in UNITS else (text, 1)
    if not number.isdecimal() or not int(number):
        raise ValueError("write a size such as 512M or 8G")
    return int(number) * unit


def _sandbox(text: str) -> bool:
    if text not in ("auto", "strict"):
        raise ValueError("choose auto or strict")
    return text == "strict"


def _device(text: str) -> str:
    if text not in ("auto", "cpu"):
        raise ValueError("choose auto or cpu; this version grades on the CPU")
    return "cpu"


def _hex(value: int) -> str:
    return f"{value:x}"


OPTIONS = (
    Option(
        "--kbench-checks",
        "checks",
        f"which checks to run, of {', '.join(CHECKS)} (default: all)",
        _checks,
        ",".join,
        "LIST",
    ),
    Option("--kbench-candidate", None, "grade only the candidate of this file name", metavar="NAME"),
    Option("--kbench-case", None, "grade just this case, as a failure's last line prints it", metavar="TEXT"),
    Option(
        "--kbench-seed",
        "seed",
        "the run's seed in hex (default: a fresh one, printed in the header)",
        _seed,
        _hex,
        "HEX",
    ),
    Option(
        "--kbench-tolerance", "tolerance", "a fixed rtol and atol instead of the three-way rule", _positive, str, "X"
    ),
    Option("--kbench-timeout", "timeout", "seconds one call may take (default: 30)", _positive, str, "S"),
    Option(
        "--kbench-build-timeout",
        "build_timeout",
        "seconds a build, or an import, may take (default: 180)",
        _positive,
        str,
        "S",
    ),
    Option("--kbench-maxfail", "max_failures", "give a candidate up after this many failures", _count, str, "N"),
    Option(
        "--kbench-memory",
        "memory",
        "memory one candidate may use, such as 8G (default: 3/4 of what is free)",
        _bytes,
        str,
        "SIZE",
    ),
    Option(
        "--kbench-threads",
        "threads",
        "threads a candidate may use (default: all of this process's CPUs)",
        _count,
        str,
        "N",
    ),
    Option(
        "--kbench-sandbox",
        "strict_sandbox",
        "auto, or strict: refuse to run where a layer is missing",
        _sandbox,
        lambda strict: "strict" if strict else "auto",
        "MODE",
    ),
    Option("--kbench-cache", "cache", "folder of finished builds (default: ~/.cache/pytest-kbench)", Path, str, "DIR"),
    Option("--kbench-device", "device", "auto or cpu", _device, str, "DEVICE"),
)
