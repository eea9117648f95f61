"""What pytest loads at every start: options, and the rule that candidates are never imported.

Everything else waits for `--kbench`.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import hookspec
from .fixtures import SETTINGS, kbench_device, kbench_grade, kbench_timer
from .options import (
    CANDIDATE,
    CANDIDATES,
    CASE,
    CHECKS,
    NEW,
    OPTIONS,
    PROFILES,
    Given,
    Option,
    OptionError,
    Settings,
    given,
)

if TYPE_CHECKING:
    from .run import Run

__all__ = ["kbench_device", "kbench_grade", "kbench_timer"]

DEFAULT_CANDIDATES = "candidates"
PROFILE, HYPOTHESIS_SEED = "--hypothesis-profile", "--hypothesis-seed"  # options of Hypothesis
BY_FLAG = {option.flag: option for option in OPTIONS}
MARKS = {
    "kbench": "a graded case of a kernel candidate (pytest-kbench)",
    **{f"kbench_{check}": f"a case of the {check} check (pytest-kbench)" for check in CHECKS},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The `kbench` group of `pytest --help`, and the same options for the configuration file."""
    group = parser.getgroup("kbench", "grade kernels (pytest-kbench)")
    group.addoption("--kbench", action="store_true", help="grade the candidates of every task file")
    for option in OPTIONS:
        if option.switch:
            group.addoption(option.flag, action="store_const", const="true", default=None, help=option.help)
        else:
            action = "append" if option.many else "store"
            group.addoption(option.flag, action=action, metavar=option.metavar, default=None, help=option.help)
        if option.ini and option.many:
            parser.addini(option.name, option.help, type="linelist", default=None)
        elif option.ini:
            parser.addini(option.name, option.help, type="string", default=None)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """The hooks that a conftest.py may implement."""
    pluginmanager.add_hookspecs(hookspec)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Refuse to collect inside the candidates: pytest would import a conftest.py that lies there."""
    start, root = early_config.invocation_params.dir, early_config.rootpath
    named = [start / str(each).partition("::")[0] for each in early_config.known_args_namespace.file_or_dir or ()]
    for argument in named or [start, *(root / each for each in early_config.getini("testpaths"))]:
        if _lies_in(argument, _candidates(early_config)):
            raise pytest.UsageError(
                f"{argument}: candidates are never imported here; grade them through their task: pytest tasks/ --kbench"
            )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Candidate folders are never collected, with or without `--kbench`."""
    return True if _lies_in(collection_path, _candidates(config)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """`--kbench-new`: write the starter files and end."""
    if (name := config.getoption(NEW)) is None:
        return None
    from .starter import StarterError, write

    try:
        for line in write(name, _tasks(config), _candidates(config), config.invocation_params.dir):
            print(line)
    except StarterError as error:
        raise pytest.UsageError(f"{NEW}={name}: {error}") from None
    return 0


@pytest.hookimpl(tryfirst=True)  # before Hypothesis loads the profile that is asked for
def pytest_configure(config: pytest.Config) -> None:
    """With `--kbench`: read the settings, and register the hooks that grade."""
    _register_profile(config.getoption(PROFILE, None))
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    if not config.getoption("--kbench"):
        config.stash[SETTINGS] = lambda: _settings(_values(config))
        unused = [option.flag for option in OPTIONS if config.getoption(option.flag) is not None]
        if unused:
            raise pytest.UsageError(f"{', '.join(unused)}: add --kbench, without which nothing is graded")
        return
    # Read when torch loads: threads that wait for work must not take the candidates' CPUs.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from .session import Session
    from .xdist import Workers

    run = _run(config)
    config.stash[SETTINGS] = lambda: run.settings
    session = Session(config, run)
    config.pluginmanager.register(session, "kbench-session")
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(Workers(run.settings.seed), "kbench-xdist")


def _values(config: pytest.Config) -> dict[str, Any]:
    """What the command line and the configuration file say: by the field of `Settings`, else by the flag."""
    values: dict[str, Any] = {}
    try:
        for option in OPTIONS:
            read = tuple(option.value(each.text, each.source) for each in _given(config, option))
            if read:
                values[option.field or option.flag] = read if option.many else read[0]
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None
    seed = getattr(config, "workerinput", {}).get("kbench_seed")  # the controller's, under xdist
    if seed is not None:
        values.setdefault("seed", int(seed, 16))
    elif (text := config.getoption(HYPOTHESIS_SEED, None)) is not None:
        values.setdefault("seed", int(text) % (1 << 64) if text.isdecimal() else zlib.crc32(text.encode()))
    if (profile := config.getoption(PROFILE, None)) in PROFILES:
        values.setdefault("examples", PROFILES[profile])
    return values


def _register_profile(name: str | None) -> None:
    """Make one of our profiles known to Hypothesis, for it to be loaded."""
    if name is None or not name.startswith("kbench"):
        return
    if name not in PROFILES:
        raise pytest.UsageError(f"{PROFILE}={name}: ours are {', '.join(PROFILES)}")
    import hypothesis

    hypothesis.settings.register_profile(
        name, max_examples=PROFILES[name], deadline=None, derandomize=False, print_blob=False
    )


def _settings(values: dict[str, Any]) -> Settings:
    return Settings.read({name: value for name, value in values.items() if not name.startswith("-")})


def _run(config: pytest.Config) -> Run:
    """All that was given for a run that grades."""
    from .case import Case, CaseError
    from .run import Run

    values = _values(config)
    try:
        case = Case.parse(values[CASE]) if CASE in values else None
    except CaseError as error:
        raise pytest.UsageError(f"{CASE}: {error}") from None
    if CANDIDATES in values and not (folder := _candidates(config)).is_dir():
        raise pytest.UsageError(f"{CANDIDATES}={values[CANDIDATES]}: there is no folder {folder}")
    _check_candidate(config, values.get(CANDIDATE))
    return Run(_settings(values), config, _candidates(config), case, values)


def _check_candidate(config: pytest.Config, wanted: str | None) -> None:
    if wanted is None or config.hook.pytest_kbench_candidates.get_hookimpls():
        return
    names = {each.name for each in _candidates(config).glob("*/*") if each.name[0] not in "_."}
    if wanted not in names:
        import difflib

        near = difflib.get_close_matches(wanted, names, cutoff=0.4)
        said = f"; there is {', '.join(near)}" if near else ""
        raise pytest.UsageError(f"{CANDIDATE}={wanted}: no task has a candidate of that name{said}")


def _given(config: pytest.Config, option: Option) -> tuple[Given, ...]:
    """What the command line, else the configuration file, says of an option."""
    on_command_line = getattr(config.known_args_namespace, option.name, None)
    file = config.inipath.name if config.inipath else "the configuration file"
    found = given(option, on_command_line, config.getini(option.name) if option.ini else None, file)
    if option.path and on_command_line is None:  # as everywhere in pytest, relative to the file that says it
        found = tuple(each._replace(text=str(config.rootpath / each.text)) for each in found)
    return found


def _lies_in(path: Path, folder: Path) -> bool:
    real = Path(os.path.realpath(path))
    return real == folder or folder in real.parents


def _candidates(config: pytest.Config) -> Path:
    """Where candidates live: relative to the rootdir."""
    found = _given(config, BY_FLAG[CANDIDATES])
    return Path(os.path.realpath(config.rootpath / (found[0].text if found else DEFAULT_CANDIDATES)))


def _tasks(config: pytest.Config) -> Path:
    """Where a new task goes: the folder that was named on the command line, or `tasks`."""
    named = config.known_args_namespace.file_or_dir
    place = config.invocation_params.dir / str(named[0]).partition("::")[0] if named else config.rootpath / "tasks"
    return place.parent if place.suffix == ".py" else place
