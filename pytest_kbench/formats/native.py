"""Our own task files: a module whose top level binds `task` to a call of `Task`.

Recognised by reading, not by importing; imported under a private name, so that `copy.py` is a fine task.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ..argument import TaskError
from ..task import Task


class TaskFileError(Exception):
    """A task file that cannot be graded: the message names the file, the field (or line) and the fix."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path.name}: {problem}")
        self.path, self.problem = path, problem


def is_task_file(path: Path) -> bool:
    """Whether the file's top level binds `task` to a call of `Task`, or looks so but does not parse."""
    try:
        source = path.read_bytes()
    except OSError:
        return True  # it cannot be read: whoever loads it says so
    if b"Task" not in source:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return any(line.startswith((b"task = Task(", b"task=Task(", b"task: Task")) for line in source.splitlines())
    return any(_binds_task(statement) for statement in tree.body)


def mentions_task(path: Path) -> bool:
    """Whether the file's text makes a `Task` anywhere, under whatever name; an ordinary module does not."""
    with contextlib.suppress(OSError):
        return b"Task(" in path.read_bytes()
    return False


def load(path: Path) -> tuple[Task, ModuleType]:
    """Import a task file and return its task, named after the file. Raises `TaskFileError`."""
    if not path.is_file():
        raise TaskFileError(path, f"there is no such file ({path})")
    if not is_task_file(path):  # and so must not be imported: it may be a candidate
        raise TaskFileError(path, "is no task file: its top level binds no `task` to a call of Task")
    name = f"pytest_kbench_task_{hashlib.sha256(bytes(path.resolve())).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TaskFileError(path, "cannot be imported; a task file ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except TaskError as error:
        raise TaskFileError(path, str(error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the file's own code: what it raises, SystemExit too, is reported as the file's
        line = next(
            (
                frame.lineno
                for frame in reversed(traceback.extract_tb(error.__traceback__))
                if frame.filename == str(path)
            ),
            None,
        )
        where = (
            f"line {error.lineno or 0}" if isinstance(error, SyntaxError) else f"line {line}" if line else "on import"
        )
        raise TaskFileError(
            path, f"{where}: {type(error).__name__}: {error}. Mend the file so that it imports"
        ) from error
    task = getattr(module, "task", None)
    if not isinstance(task, Task):
        raise TaskFileError(path, f"task: is a {type(task).__name__}. Bind it to a call of Task")
    return task.located(path), module


def _binds_task(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="task")], value=ast.Call(func=func)):
            pass
        case ast.AnnAssign(target=ast.Name(id="task"), value=ast.Call(func=func)):
            pass
        case _:
            return False
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "Task"
    return False
