"""Import a task's file in a child, for its reference: a trusted program, which may import what the grader may."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MODULE_NAME = "reference"


def import_reference(path: Path, search: Sequence[str]) -> object:
    """What a file has, and the reference of its task under its own name; it finds what the grader's search path has.

    In a child the package is a name with a place, so that importing a candidate's side runs nothing of it. A task file
    needs the public names.
    """
    sys.path += [each for each in search if each not in sys.path]
    package = sys.modules[__name__.partition(".")[0]]
    whole = importlib.util.spec_from_file_location(package.__name__, Path(__file__).parents[1] / "__init__.py")
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    if whole is None or whole.loader is None or spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    whole.loader.exec_module(package)
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    task: Any = getattr(module, "task", None)
    if (function := getattr(task, "function", None)) is None:
        return module
    return SimpleNamespace(**{**vars(module), function.__name__: function})
