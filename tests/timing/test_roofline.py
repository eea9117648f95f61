"""What a call must do at least."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_kbench.case import Call
from pytest_kbench.checks.timekeeper import calls_of
from pytest_kbench.formats.native import load
from pytest_kbench.oracle.coverage import timed
from pytest_kbench.oracle.truth import ask
from pytest_kbench.sandbox.turns import Calls
from pytest_kbench.timing.roofline import Work, work_of

TASKS = Path(__file__).parent.parent.parent / "tasks"
F = 4  # bytes of a float32


def work(name: str, shape: str, *, backward: bool = False) -> tuple[Work, dict[str, int]]:
    task = load(TASKS / f"{name}.py")[0]
    wanted = task.shapes[shape]
    named = next(each for each in timed(task, "cpu", 1) if dict(each.case.calls[-1].dims) == wanted)
    call = replace(named.case.calls[-1], layouts=(), backward=None, only=(), grad=tuple(task.grad) if backward else ())
    return work_of(task, call, calls(task, call)), dict(call.dims)


def calls(task, call: Call) -> Calls:
    question = ask(task, call)
    return calls_of(task, question, explicit=False)[0]


def by_hand(name: str, d: dict[str, int]) -> Work:
    """Bytes and operations of a forward, derived from the formulas."""
    match name:
        case "relu" | "softmax":
            size = d["rows"] * d["columns"] * F
            return Work(size, size, None)
        case "layernorm":
            row = d["channels"] * d["height"] * d["width"] * F
            return Work(d["batch"] * row + 2 * row, d["batch"] * row, None)
        case "llama_rmsnorm":
            size = d["tokens"] * d["hidden"] * F
            return Work(size + d["hidden"] * F, size, None)
        case "llama_ffw":
            tokens, hidden, inner = d["batch"] * d["tokens"], d["hidden"], d["inner"]
            return Work(
                (tokens * hidden + 3 * hidden * inner) * F, tokens * hidden * F, 3 * 2 * tokens * hidden * inner
            )
        case "mnist_cross_entropy":
            return Work(d["batch"] * d["classes"] * F + d["batch"] * 8, F, None)
        case "mnist_linear":
            batch, features, classes = d["batch"], d["features"], d["classes"]
            read = (batch * features + classes * features + classes) * F
            return Work(read, batch * classes * F, 2 * batch * features * classes)
        case "mnist_linear_relu":
            batch, inputs, outputs = d["batch"], d["inputs"], d["outputs"]
            read = (batch * inputs + outputs * inputs + outputs) * F
            return Work(read, batch * outputs * F, 2 * batch * inputs * outputs)
        case "unet_linear":
            rows, inputs, outputs = d["batch"] * d["tokens"], d["inputs"], d["outputs"]
            read = (rows * inputs + outputs * inputs + outputs) * F
            return Work(read, rows * outputs * F, 2 * rows * inputs * outputs)
        case "mnist_pool":
            windows = d["n"] * d["c"] * (d["h"] // d["kernel"]) * (d["w"] // d["kernel"])
            return Work(d["n"] * d["c"] * d["h"] * d["w"] * F, windows * F, windows * (d["kernel"] ** 2 - 1))
        case "mnist_conv_relu_pool":
            high, wide = d["h"] - d["k"] + 1, d["w"] - d["k"] + 1
            filters = d["cout"] * d["cin"] * d["k"] ** 2
            read = (d["n"] * d["cin"] * d["h"] * d["w"] + filters + d["cout"]) * F
            return Work(read, d["n"] * d["cout"] * (high // 2) * (wide // 2) * F, 2 * d["n"] * filters * high * wide)
        case "unet_conv2d":
            high, wide = ((d[side] + 2 * d["padding"] - d["k"]) // d["stride"] + 1 for side in "hw")
            filters = d["cout"] * d["cin"] * d["k"] ** 2
            read = (d["n"] * d["cin"] * d["h"] * d["w"] + filters + d["cout"]) * F
            return Work(read, d["n"] * d["cout"] * high * wide * F, 2 * d["n"] * filters * high * wide)
        case "resnet_block":
            high, wide = (d[side] // d["stride"] for side in "hw")
            first, second = 9 * d["cin"] * d["planes"], 9 * d["planes"] ** 2
            down = d["cin"] * d["planes"] if d["stride"] != 1 or d["cin"] != d["planes"] else 0
            norms = 4 * d["planes"] * (3 if down else 2)
            read = (d["n"] * d["cin"] * d["h"] * d["w"] + first + second + down + norms) * F
            written = d["n"] * d["planes"] * high * wide
            return Work(read, written * F, 2 * written // d["planes"] * (first + second + down))
    raise KeyError(name)


@pytest.mark.parametrize("name", sorted(each.stem for each in TASKS.glob("*.py")))
def test_bytes_and_operations_are_those_of_the_formulas(name):
    found, dims = work(name, "laptop")
    assert (found.read, found.written) == (by_hand(name, dims).read, by_hand(name, dims).written)
    assert (found.flops or None) == by_hand(name, dims).flops


def test_a_strided_block_has_a_quarter_of_the_pixels_and_a_projection():
    found, dims = work("resnet_block", "laptop-down")
    assert found == by_hand("resnet_block", dims)


def test_a_backward_makes_the_gradients_of_a_product_with_two_products():
    found, d = work("mnist_linear", "laptop", backward=True)
    forward = by_hand("mnist_linear", d)
    assert found.flops == 2 * forward.flops
    assert found.read == forward.read + forward.written  # and the cotangent
    assert found.written == forward.read  # a gradient of each


def test_a_reference_that_needs_data_has_operations_that_nobody_knows():
    task = load(TASKS / "relu.py")[0]
    call = timed(task, "cpu", 1)[0].case.calls[-1]
    needs = replace(task, function=relu)
    assert work_of(needs, call, calls(task, call)).flops is None


def relu(x):
    return x + float(x.sum())
