"""What `benchmarks/calibrate.py` prints of honest candidates, and of one that is not; whether it halves constants.

And what `benchmarks/fuzz.py` prints of a wrong gradient.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pytest_kbench.candidate import Candidate
from pytest_kbench.oracle import tolerance

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks/calibrate.py"
Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def calibrate() -> Iterator[ModuleType]:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("calibrate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibrate"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    module.sandbox(None).close()
    del sys.modules["calibrate"]


@pytest.fixture
def run(calibrate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Its exit code, and what it prints, for these arguments."""

    def with_arguments(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        with pytest.raises(SystemExit) as ended:
            calibrate.main()
        return int(ended.value.code or 0), capsys.readouterr().out

    return with_arguments


def test_calibrate_prints_a_row_per_family_and_dtype(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    code, text = run(
        "--cases", "3", "--only", "unet_linear/eager", "--seed", "1f", "--sensitivity", "--json", str(file)
    )
    assert code == 0
    command = f"calibrate.py --cases 3 --only unet_linear/eager --seed 1f --sensitivity --json {file}`"
    assert text.partition("\n")[0].endswith(f", seed 1f, `python benchmarks/{command}")
    assert "\n| products | float32 | 3 | 0 | 0 | " in text
    assert "\n| all | bfloat16 | 3 | 0 | 0 | " in text
    assert "\n| elementwise | 4 | 0 | 0 | 0 | 0 | - |" in text
    figures = json.loads(file.read_text())
    assert [row["cases"] for row in figures["table"]] == [3] * 6
    assert 0.0 < max(row["error / bound: largest"] for row in figures["table"]) <= 1.0
    assert figures["failures"] == []


def test_calibrate_shows_a_failure_with_its_command(
    run: Run, calibrate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Candidate.at(ROOT / "tests/cheats/mean/zero.py")
    monkeypatch.setattr(calibrate, "honest", lambda only: {ROOT / "tests/tasks/mean.py": [wrong]})
    code, text = run("--cases", "5")
    assert code == 1
    first, line = text.rstrip("\n").splitlines()[-2:]
    assert first.startswith("tests/cheats/mean/zero.py: wrong")
    assert "(not again)" not in first
    assert line.startswith("pytest tests/tasks/mean.py --kbench --kbench-candidates=tests/cheats --kbench-checks=fuzz ")
    assert "--kbench-candidate=zero.py '--kbench-case=dims(rows=" in line


def test_calibrate_has_a_family_for_every_candidate(calibrate: ModuleType) -> None:
    assert {place.stem for place in calibrate.honest("")} <= calibrate.FAMILY.keys()


def bounds() -> list[tolerance.Bound]:
    """Of errors and shakes of several sizes, and sums of several lengths, in both kinds of dtypes."""
    noise = torch.linspace(-1.0, 1.0, 128, dtype=torch.float64).view(2, 64)
    made = []
    for dtype in (torch.float32, torch.bfloat16):
        for size, shake, terms in [
            (1.0, 1e-6, 2),
            (1.0, 1e-6, 1 << 20),
            (1.0, 0.3, 2),
            (1e-9, 1e-3, 2),
            (1e-9, 1e-3, 1 << 20),
        ]:
            golden = size * (2.0 + noise)
            eager = (golden * (1.0 + 1e-2 * noise)).to(dtype)
            for telling in (False, True):
                made.append(
                    tolerance.bound(
                        golden, eager, golden + shake * noise, tolerance.Tolerance(), terms=terms, telling=telling
                    )
                )
    return made


def test_calibrate_halves_every_constant_of_the_module(calibrate: ModuleType) -> None:
    before = bounds()
    for constant, _, changed in calibrate.halves():
        if changed:
            calibrate.put(changed)
            try:
                after = bounds()
            finally:
                calibrate.put(calibrate.MODULE)
            smaller = [bool((b.elementwise < a.elementwise).any()) for a, b in zip(before, after, strict=True)]
            assert any(smaller), constant
    assert all(torch.equal(a.elementwise, b.elementwise) for a, b in zip(before, bounds(), strict=True))


def test_fuzz_prints_how_soon_a_wrong_gradient_is_found() -> None:
    arguments = ["--gradients", "--seeds", "2", "--examples", "20", "--only", "relu/mask_of_the_cotangent"]
    script = str(ROOT / "benchmarks/fuzz.py")
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=True)
    _, _, titles, _, row, *_, summary, _ = done.stdout.split("\n")
    assert titles == "| kernel | found as | examples until found, 2 seeds: median, most | found in |"
    assert row.startswith("| relu/mask_of_the_cotangent.py | wrong | ")
    assert row.endswith(" | 2/2 |")
    assert summary.startswith("1 kernels in every search; median ")
