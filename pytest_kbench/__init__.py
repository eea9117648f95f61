"""pytest-kbench: a pytest plugin that grades kernels.

The public names are loaded when they are used: importing the package imports neither torch nor hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .argument import Dim, Optional, Param, Scalar, TaskError, Tensor, batch_norm
    from .grader import Grader, grade, grade_async
    from .options import Settings
    from .record import Comparison, Reason, Record, Verdict
    from .task import Task
    from .values import constant, integers, kaiming, masks, normal, uniform, uniform_fan_in, xavier

__version__ = "0.1.0"

_HOME = {
    "argument": ("Dim", "Optional", "Param", "Scalar", "TaskError", "Tensor", "batch_norm"),
    "grader": ("Grader", "grade", "grade_async"),
    "options": ("Settings",),
    "record": ("Comparison", "Reason", "Record", "Verdict"),
    "task": ("Task",),
    "values": ("constant", "integers", "kaiming", "masks", "normal", "uniform", "uniform_fan_in", "xavier"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Comparison",
    "Dim",
    "Grader",
    "Optional",
    "Param",
    "Reason",
    "Record",
    "Scalar",
    "Settings",
    "Task",
    "TaskError",
    "Tensor",
    "Verdict",
    "batch_norm",
    "constant",
    "grade",
    "grade_async",
    "integers",
    "kaiming",
    "masks",
    "normal",
    "uniform",
    "uniform_fan_in",
    "xavier",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
