"""The rules of the house, read from the sources: who may import whom, and what an unused plugin costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pytest_kbench"
RANKS = (
    ("argument", "candidate", "case", "device", "expression", "gate", "options", "record", "sweep", "task", "values"),
    ("oracle", "sandbox"),
    ("audit", "build", "formats", "timing"),
    ("checks",),
    ("grader",),
    ("environment", "report", "starter"),
    ("benchmark", "fixtures", "hookspec", "run"),
    ("collect",),
    ("session", "xdist"),
    ("plugin",),
)
RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}
PYTEST_RANK = RANK["run"]
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything a module imports, at any depth of its code."""
    package = ["pytest_kbench", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_of_a_lower_rank(path):
    own = room(path)
    if own == "__init__":
        return
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("pytest_kbench.")}
    peers = RANKS[RANK[own]] if RANK[own] > 0 else ()
    forbidden = {each for each in ours if each in RANK and (RANK[each] > RANK[own] or each in peers)} - {own}
    assert forbidden == set()


def test_every_room_has_a_rank():
    assert {room(path) for path in MODULES} - {"__init__"} == set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_outermost_rooms_know_pytest(path):
    knows = any(name.split(".")[0] in ("pytest", "_pytest", "xdist") for name in imports(path))
    assert not knows or RANK[room(path)] >= PYTEST_RANK


def test_only_the_child_imports_a_candidate():  # the others import task files
    importers = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if any(name.startswith("importlib.util") or name == "runpy" for name in imports(path))
    }
    assert importers == {"formats/native.py", "sandbox/child.py", "sandbox/reference.py"}


@pytest.mark.parametrize("statement", ["import pytest_kbench", "import pytest_kbench.plugin"])
def test_importing_us_imports_neither_torch_nor_hypothesis(statement):
    code = f"import sys; {statement}; print({{'torch', 'hypothesis', 'numpy', 'pytest_benchmark'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_unused_plugin_leaves_torch_alone(pytester):
    pytester.makeconftest("import sys\ndef pytest_unconfigure():\n    print('torch' in sys.modules)")
    result = pytester.runpytest_subprocess("--co", "-q")
    assert result.outlines[-1] == "False"
