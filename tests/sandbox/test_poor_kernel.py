"""Where a kernel or a container lacks a layer, it is named, and the others still hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

POOR = Path(__file__).parent / "poor_kernel.py"


def run(*calls: str) -> dict[str, Any]:
    ran = subprocess.run([sys.executable, str(POOR), *calls], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert isinstance(found, dict)
    return found


def check_what_must_always_hold(found: dict[str, Any]) -> None:
    for attack in ("signal_nothing", "ptrace", "pin", "renice", "tcp", "io_uring", "clone_user_namespace"):
        assert not found[attack], attack
    assert found["survivors"] == []
    assert not found["scratch left"]


@pytest.mark.slow
def test_without_namespaces_scratch_is_a_folder_that_is_watched() -> None:
    found = run("unshare")
    assert {"mount-namespace", "network-namespace", "ipc-namespace", "scratch"} <= set(found["refused"])
    assert {"landlock-files", "landlock-scope", "seccomp"} <= set(found["active"])
    assert found["full"] == "memory"
    assert not found["read"]
    assert {"mount-namespace", "scratch"} <= set(found["strict"])
    check_what_must_always_hold(found)


@pytest.mark.slow
def test_without_landlock_signals_are_bounded_by_seccomp() -> None:
    found = run("landlock_create_ruleset")
    assert {"landlock-files", "landlock-network", "landlock-scope"} <= set(found["refused"])
    assert {"seccomp", "network-namespace"} <= set(found["active"])
    assert "landlock-files" in found["strict"]
    check_what_must_always_hold(found)
