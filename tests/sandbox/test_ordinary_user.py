"""Everything in this folder holds for an ordinary user too, who gets a user namespace where root gets a uid."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WHAT = (
    "test_escapes.py", "test_endings.py::test_what_a_child_leaves_behind_ends_with_it",
    "test_endings.py::test_nothing_survives_a_killed_grader[9]", "test_verdicts.py", "test_calls.py",
    "test_compile.py::test_a_library_is_built_loaded_and_called",
    "test_compile.py::test_a_source_cannot_include_what_the_sandbox_hides",
    "test_first_call.py::test_another_contents_folder_is_out_of_reach",
    "test_first_call.py::test_links_pipes_locks_and_rights_are_not_kept",
    "test_first_call.py::test_no_depth_and_no_rights_keep_a_folder_from_being_removed",
    "test_sanitizer.py::test_every_layer_holds_that_holds_for_others",
    "test_sanitizer.py::test_no_thread_of_the_runtime_escapes_the_lock_down",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user")
def test_the_whole_battery_holds_for_an_ordinary_user() -> None:
    # The interpreter's own prefix may be where only root may go, so this is done by a script that makes it reachable.
    with tempfile.TemporaryDirectory() as home:
        places = sorted({os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, ROOT)})
        if closed := [place for place in places if os.stat(place).st_mode & 0o005 != 0o005]:
            pytest.skip(f"only root may enter {', '.join(closed)}")
        command = [
            sys.executable, str(HERE / "as_ordinary_user.py"), home, ":".join(places), "--",
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-x",
            "-o", "addopts=", "-k", "not dead_zygote and not every_layout",
            f"--basetemp={home}/pytest", *(str(HERE / name) for name in WHAT),
        ]  # fmt: skip
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "XDG"))}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    if "no mount namespace" in ran.stderr:
        pytest.skip(ran.stderr)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert "passed" in ran.stdout
