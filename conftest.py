"""Shared by this project's own tests: pytester, and the skip for tests that need an accelerator."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked `gpu` where there is no device."""
    if any(item.get_closest_marker("gpu") for item in items) and not Path("/dev/nvidia0").exists():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
