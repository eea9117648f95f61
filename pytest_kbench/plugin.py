"""What pytest loads at every start: options, and the rule that candidates are never imported.

Everything else waits for `--kbench`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .options import OPTIONS, OptionError, Settings

if TYPE_CHECKING:
    from .case import Case

DEFAULT_CANDIDATES = "candidates"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The `kbench` group of `pytest --help`."""
    group = parser.getgroup("kbench", "grade kernels (pytest-kbench)")
    group.addoption("--kbench", action="store_true", help="grade the candidates of every task file")
    for option in OPTIONS:
        group.addoption(option.flag, metavar=option.metavar, default=None, help=option.help)
    parser.addini("kbench_candidates", "folder of candidates, relative to the rootdir", default=DEFAULT_CANDIDATES)


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


def pytest_configure(config: pytest.Config) -> None:
    """With `--kbench`: read the settings, and register the hooks that grade."""
    config.addinivalue_line("markers", "kbench: a graded case of a kernel candidate (pytest-kbench)")
    given = [option.flag for option in OPTIONS if config.getoption(option.flag) is not None]
    if given and not config.getoption("--kbench"):
        raise pytest.UsageError(f"{', '.join(given)}: add --kbench, without which nothing is graded")
    if config.getoption("--kbench"):
        # Read when torch loads: threads that wait for work must not take the candidates' CPUs.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        from .run import Run
        from .session import Session
        from .xdist import Seed

        settings, case = _settings(config)
        config.pluginmanager.register(Session(config, Run(settings, case, _candidates(config))), "kbench-session")
        if config.pluginmanager.hasplugin("xdist"):
            config.pluginmanager.register(Seed(settings.seed), "kbench-xdist")


def _settings(config: pytest.Config) -> tuple[Settings, Case | None]:
    from .case import Case, CaseError

    given = {option.flag: config.getoption(option.flag) for option in OPTIONS}
    try:
        values = {
            option.field: option.value(text)
            for option in OPTIONS
            if option.field and (text := given[option.flag]) is not None
        }
        if "seed" not in values and hasattr(config, "workerinput"):
            values["seed"] = int(config.workerinput["kbench_seed"], 16)
        case = Case.parse(given["--kbench-case"]) if given["--kbench-case"] is not None else None
    except (OptionError, CaseError) as error:
        prefix = "--kbench-case: " if isinstance(error, CaseError) else ""
        raise pytest.UsageError(f"{prefix}{error}") from None
    wanted = given["--kbench-candidate"]
    if wanted is not None and wanted not in {each.name for each in _candidates(config).glob("*/*")}:
        raise pytest.UsageError(f"--kbench-candidate={wanted}: no task has a candidate of that name")
    return Settings.read(values), case


def _lies_in(path: Path, folder: Path) -> bool:
    real = Path(os.path.realpath(path))
    return real == folder or folder in real.parents


def _candidates(config: pytest.Config) -> Path:
    """Where candidates live: the ini option `kbench_candidates`, relative to the rootdir."""
    return Path(os.path.realpath(config.rootpath / str(config.getini("kbench_candidates"))))
