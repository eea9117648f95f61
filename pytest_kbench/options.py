"""The option table, and the frozen `Settings` that everything below the plugin reads.

One row per option: its flag, how its text becomes a value, and its help. The plugin adds the rows to pytest's parser,
`given` merges command line and configuration file, `Settings.read` turns what was given into settings, and
`Settings.flags` turns settings back into the flags that reproduce them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .device import Kind, kind_of, resolved
from .sweep import FORM, Sweep, parsed

if TYPE_CHECKING:
    from .gate import Required

CheckName = Literal["build", "correct", "contract", "determinism", "fuzz", "grad", "sanitize", "speed"]
CHECKS: tuple[CheckName, ...] = ("build", "correct", "contract", "determinism", "fuzz", "grad", "sanitize", "speed")
SEARCHING: tuple[CheckName, ...] = ("fuzz", "grad")  # checks that draw cases
Sanitizer = Literal["address", "thread"]
SANITIZERS: tuple[Sanitizer, ...] = ("address", "thread")
EXAMPLES = 200  # of a search, per candidate
BASELINES = ("eager", "compile", "max-autotune")
PROFILES = {"kbench": EXAMPLES, "kbench-ci": 500, "kbench-deep": 5000}  # what --hypothesis-profile makes of that
WARM = 4  # candidates whose children are kept between their cases


class OptionError(ValueError):
    """A value that an option does not take; the message names the option, the value and what it takes."""


LEAST_MEMORY = 64 << 20
MOST_SECONDS = 1e6
MOST_EXAMPLES = 1_000_000
SandboxMode = Literal["auto", "strict", "off"]
SANDBOX_MODES: tuple[SandboxMode, ...] = ("auto", "strict", "off")
OPTIONAL = ("baselines", "tolerance", "memory", "threads", "cache")


def _required(given: object) -> Required | None:
    from .gate import required  # late: the records that it judges need names from here

    return required(given)


@dataclass(frozen=True, slots=True)
class Settings:
    """How to grade. Times are in seconds, memory in bytes; `None` leaves the choice to the part concerned."""

    checks: tuple[CheckName, ...] = CHECKS
    seed: int = field(default_factory=lambda: int.from_bytes(os.urandom(8)))
    tolerance: float | None = None
    timeout: float = 30.0
    build_timeout: float = 180.0
    max_failures: int = 20
    examples: int = EXAMPLES
    sanitize: tuple[Sanitizer, ...] = ()
    baselines: tuple[str, ...] | None = None
    shapes: tuple[Sweep, ...] = ()
    budget: float = 1.0
    min_speedup: Required | str | float | None = None
    strict: bool = False
    memory: int | None = None
    threads: int | None = None
    sandbox: SandboxMode = "auto"
    cache: Path | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.device, str):
            self._enter("device", resolved)
        self._enter("min_speedup", _required)
        for name, kind, fine, what in (
            ("checks", tuple, lambda given: set(given) <= set(CHECKS), f"a tuple of some of {', '.join(CHECKS)}"),
            ("seed", int, lambda given: 0 <= given < 1 << 64, "an integer of at most 64 bits"),
            ("tolerance", (int, float), lambda given: 0 < given < float("inf"), "a positive number, or None"),
            ("timeout", (int, float), lambda given: 0 < given < MOST_SECONDS, "a positive number of seconds"),
            ("build_timeout", (int, float), lambda given: 0 < given < MOST_SECONDS, "a positive number of seconds"),
            ("max_failures", int, lambda given: 0 <= given <= 1 << 20, "a number, 0 for no limit"),
            ("examples", int, lambda given: 1 <= given <= MOST_EXAMPLES, f"a number from 1 to {MOST_EXAMPLES}"),
            ("sanitize", tuple, lambda given: set(given) <= set(SANITIZERS), f"some of {', '.join(SANITIZERS)}"),
            ("baselines", tuple, lambda given: set(given) <= set(BASELINES), f"some of {', '.join(BASELINES)}"),
            ("shapes", tuple, lambda given: all(isinstance(each, Sweep) for each in given), "a tuple of Sweeps"),
            ("budget", (int, float), lambda given: 0 < given < MOST_SECONDS, "a positive number of seconds"),
            ("strict", bool, lambda given: True, "True or False"),
            ("memory", int, lambda given: LEAST_MEMORY <= given < 1 << 60, "64 MiB or more in bytes, or None"),
            ("threads", int, lambda given: 0 < given <= 4096, "1 to 4096, or None"),
            ("sandbox", str, lambda given: given in SANDBOX_MODES, f"one of {', '.join(SANDBOX_MODES)}"),
            ("cache", Path, lambda given: True, "a Path, or None"),
            ("device", str, lambda given: True, "'auto', 'cpu', 'cuda' or 'cuda:N'"),
        ):
            given = getattr(self, name)
            if given is None and name in OPTIONAL:
                continue
            if not isinstance(given, kind) or (isinstance(given, bool) and kind is not bool) or not fine(given):
                raise ValueError(f"Settings.{name}={given!r}: it takes {what}")

    def _enter(self, name: str, read: Callable[[Any], object]) -> None:
        given = getattr(self, name)
        try:
            object.__setattr__(self, name, read(given))
        except ValueError as error:
            raise ValueError(f"Settings.{name}={given!r}: {error}") from None

    @property
    def kind(self) -> Kind:
        """What kind of device it grades on."""
        return kind_of(self.device)

    @property
    def compared_with(self) -> tuple[str, ...]:
        """The baselines of speed: eager always, and what the gate asks for; by default `compile` too, on a CPU."""
        given = ("compile",) * (self.kind == "cpu") if self.baselines is None else self.baselines
        wanted = _required(self.min_speedup)
        needed = (BASELINES[0], *given, *((wanted.baseline,) if wanted is not None else ()))
        return tuple(each for each in BASELINES if each in needed)

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
        return " ".join(shlex.quote(option.written(getattr(self, option.field or ""))) for option in shown)


class Option(NamedTuple):
    """One option. `field` is the field of `Settings` that it sets, if any.

    With `ini`, the configuration file has it too, under its flag's name without dashes: `kbench_timeout = 60`. A `many`
    option may be given several times; a `path` in the configuration file is relative to the rootdir. A `switch` has no
    value on the command line, and `true` or `false` in the file.
    """

    flag: str
    field: str | None
    help: str
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    metavar: str | None = None
    ini: bool = True
    many: bool = False
    path: bool = False
    switch: bool = False

    @property
    def name(self) -> str:
        """Its name in the configuration file."""
        return self.flag.removeprefix("--").replace("-", "_")

    def written(self, value: Any) -> str:
        """The flag that sets this value."""
        return self.flag if self.switch else f"{self.flag}={self.write(value)}"

    def value(self, text: str, source: str | None = None) -> Any:
        """The value of this text; raises `OptionError`. `source` is what was written, if not `--flag=text`."""
        try:
            return self.read(text)
        except ValueError as error:
            raise OptionError(f"{source or f'{self.flag}={text}'}: {error}") from None


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


def _seconds(text: str) -> float:
    value = _positive(text)
    if value >= MOST_SECONDS:
        raise ValueError(f"less than {MOST_SECONDS:,.0f} seconds are needed")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise ValueError("a whole number from 1 to 4096 is needed")
    return int(text)


def _limit(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise ValueError("a whole number is needed")
    return int(text)


def _examples(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= MOST_EXAMPLES:
        raise ValueError(f"a whole number from 1 to {MOST_EXAMPLES:,} is needed")
    return int(text)


def _sanitizers(text: str) -> tuple[Sanitizer, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or (unknown := [name for name in names if name not in SANITIZERS]):
        raise ValueError(
            f"choose from {', '.join(SANITIZERS)}, separated by commas"
            + (f"; not {', '.join(unknown)}" if names else "")
        )
    return tuple(each for each in SANITIZERS if each in names)


def _baselines(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or set(names) - set(BASELINES):
        raise ValueError(f"choose from {', '.join(BASELINES)}, separated by commas")
    return tuple(each for each in BASELINES if each in names)


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("choose true or false")
    return text == "true"


def _share(text: str) -> float:
    if not re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]{1,3})?", text) or float(text) > 1:
        raise ValueError("a number from 0 to 1 is needed")
    return float(text)


UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", text)
    size = int(match[1]) * UNITS.get(match[2], 1) if match else 0
    if not LEAST_MEMORY <= size < 1 << 60:
        raise ValueError("write a size such as 512M or 8G, at least 64M")
    return size


def _folder(text: str) -> Path:
    return Path(_name_of_folder(text)).absolute()


def _name_of_folder(text: str) -> str:
    if not text or (Path(text).exists() and not Path(text).is_dir()):
        raise ValueError("a folder is needed")
    return text


def _sandbox(text: str) -> str:
    if text not in SANDBOX_MODES:
        raise ValueError(f"choose {', '.join(SANDBOX_MODES)}")
    return text


def _device(text: str) -> str:
    return resolved(text)


def _required_device(text: str) -> str:
    if text not in ("cpu", "cuda"):
        raise ValueError("choose cpu or cuda")
    return text


REPORTS = (".json",)
BENCHMARK = ".benchmark.json"  # what pytest-benchmark reads


def _report(text: str) -> Path:
    path = Path(text)
    if path.suffix not in REPORTS:
        raise ValueError(f"the suffix chooses the format; it may be {', '.join((*REPORTS, BENCHMARK))}")
    if path.name.endswith(BENCHMARK):
        from importlib.metadata import PackageNotFoundError, version

        try:
            version("pytest-benchmark")
        except PackageNotFoundError:
            raise ValueError(f"{BENCHMARK} needs pytest-benchmark, which is not installed") from None
    if path.is_dir():
        raise ValueError("it is a folder")
    return path.absolute()


def _hex(value: int) -> str:
    return f"{value:x}"


LEAST_SCORE = 0.95  # of an audit
AUDIT, CANDIDATES, CANDIDATE, CASE, MIN_SCORE, MIN_SPEEDUP, NEW, REPORT, REQUIRE_DEVICE, SHAPES = (
    "--kbench-audit",
    "--kbench-candidates",
    "--kbench-candidate",
    "--kbench-case",
    "--kbench-min-mutation-score",
    "--kbench-min-speedup",
    "--kbench-new",
    "--kbench-report",
    "--kbench-require-device",
    "--kbench-shapes",
)
OPTIONS = (
    Option(
        CANDIDATES,
        None,
        "folder of candidates, relative to the rootdir (default: candidates)",
        _name_of_folder,
        metavar="DIR",
    ),
    Option(CANDIDATE, None, "grade only the candidate of this file name", metavar="NAME", ini=False),
    Option(
        "--kbench-checks",
        "checks",
        f"which checks to run, of {', '.join(CHECKS)} (default: all)",
        _checks,
        ",".join,
        "LIST",
    ),
    Option(CASE, None, "grade just this case, as a failure's last line prints it", metavar="TEXT", ini=False),
    Option(
        "--kbench-seed",
        "seed",
        "the run's seed in hex (default: a fresh one, printed in the header)",
        _seed,
        _hex,
        "HEX",
    ),
    Option(
        "--kbench-device",
        "device",
        "auto (the first GPU, if there is one), cpu, cuda or cuda:N",
        _device,
        str,
        "DEVICE",
    ),
    Option(
        REQUIRE_DEVICE,
        None,
        "fail what is skipped for want of this device: cpu or cuda",
        _required_device,
        str,
        "DEVICE",
    ),
    Option(
        "--kbench-sandbox",
        "sandbox",
        "auto; strict: refuse to run where a layer is missing; off: trust the candidates, to debug them",
        _sandbox,
        str,
        "MODE",
    ),
    Option("--kbench-timeout", "timeout", "seconds one call may take (default: 30)", _seconds, str, "S"),
    Option(
        "--kbench-build-timeout",
        "build_timeout",
        "seconds a build, or an import, may take (default: 180)",
        _seconds,
        str,
        "S",
    ),
    Option(
        "--kbench-tolerance", "tolerance", "a fixed rtol and atol instead of the three-way rule", _positive, str, "X"
    ),
    Option(
        "--kbench-maxfail",
        "max_failures",
        "give a candidate up after N failures (default: 20; 0: never)",
        _limit,
        str,
        "N",
    ),
    Option(
        "--kbench-examples",
        "examples",
        f"examples of the fuzz and grad checks per candidate (default: {EXAMPLES}; with --hypothesis-profile of "
        f"{', '.join(f'{name} {count}' for name, count in PROFILES.items())})",
        _examples,
        str,
        "N",
    ),
    Option(
        "--kbench-sanitize",
        "sanitize",
        f"build C++ candidates again with these sanitizers and run them: {', '.join(SANITIZERS)}",
        _sanitizers,
        ",".join,
        "LIST",
    ),
    Option(
        "--kbench-baselines",
        "baselines",
        f"what times are compared with, of {', '.join(BASELINES)} (default: eager, and on a CPU compile)",
        _baselines,
        ",".join,
        "LIST",
    ),
    Option(
        SHAPES,
        "shapes",
        f"time these sizes too, with all else as in the largest timed shape: {FORM}",
        parsed,
        lambda sweeps: ",".join(map(str, sweeps)),
        "SWEEPS",
    ),
    Option(
        "--kbench-budget",
        "budget",
        "seconds to compare a candidate's time with a baseline's, per shape (default: 1)",
        _seconds,
        str,
        "S",
    ),
    Option(
        MIN_SPEEDUP,
        "min_speedup",
        "fail candidates that are slower than X times as fast as a baseline (default: the best one): 1.05, 1.05@eager",
        _required,
        str,
        "X[@BASELINE]",
    ),
    Option(
        "--kbench-strict",
        "strict",
        "fail also what is not shown to be as fast as --kbench-min-speedup, or its task, asks",
        _switch,
        switch=True,
    ),
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
        "--kbench-cache", "cache", "folder of builds (default: ~/.cache/pytest-kbench)", _folder, str, "DIR", path=True
    ),
    Option(
        AUDIT,
        None,
        "audit every task: grade it by kernels that are known to be wrong",
        _switch,
        switch=True,
    ),
    Option(
        MIN_SCORE,
        None,
        f"fail the audit of a task that notices less than this part of them (default: {LEAST_SCORE})",
        _share,
        str,
        "X",
    ),
    Option(
        REPORT,
        None,
        "write the run's records to a file, its format chosen by the suffix: .json; may be repeated",
        _report,
        str,
        "FILE",
        many=True,
        path=True,
    ),
    Option(NEW, None, "write a starter task and candidate of this name, and end", metavar="NAME", ini=False),
)


class Given(NamedTuple):
    """One text that was given for an option, and how an error shall quote it."""

    text: str
    source: str


def given(
    option: Option, command_line: str | Sequence[str] | None, ini: str | Sequence[str] | None, file: str
) -> tuple[Given, ...]:
    """What was given for an option: the command line, else the configuration file (called `file`), else nothing."""
    if command_line is not None:
        texts = (command_line,) if isinstance(command_line, str) else tuple(command_line)
        return tuple(Given(text, f"{option.flag}={text}") for text in texts)
    texts = (ini,) if isinstance(ini, str) else tuple(ini or ())
    return tuple(Given(text, f"{file}: {option.name} = {text}") for text in texts if text)
