"""Whatever a child says, well-formed or not, the grader gets data, or an exception that is documented."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_kbench.record import Reason
from pytest_kbench.sandbox import host
from pytest_kbench.sandbox.host import (
    Child,
    CompileJob,
    Failure,
    Limits,
    Program,
    Returned,
    Sandbox,
    TensorArgument,
    ValueArgument,
)  # fmt: skip

from .conftest import X, argument, spec

PUPPET = Path(__file__).parent / "puppet.py"
ARGUMENTS = [argument(X), ValueArgument("eps", 1e-3), argument(X, "z")]
OUTPUTS = [spec(X), spec(X)]
HONEST: dict[str, Any] = {
    "kind": "tensor", "dtype": "float32", "shape": [3, 4], "strides": [4, 1], "device": "cpu", "aliases": [],
    "callables": [], "fits": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def puppets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox whose children follow scripts."""
    with pytest.MonkeyPatch.context() as patch:
        ours = f"exec(compile(open({str(PUPPET)!r}).read(), 'puppet', 'exec'))\n"
        main = "from pytest_kbench.sandbox.zygote import main\n"
        assert main in host._BOOTSTRAP
        patch.setattr(host, "_BOOTSTRAP", host._BOOTSTRAP.replace(main, ours + main))
        with Sandbox(threads=1) as sandbox:
            sandbox.layers()
            yield sandbox


# What a child may say: of the right shape mostly, so that what is said gets past the first check.

sizes = st.integers(0, 5) | st.sampled_from([-1, -(10**17), 10**17, 10**30])
names = st.sampled_from(["tensor", "float32", "cpu", "NoneType", "x", "", "\u001b[2J", "a\nb", "\ud800", "0" * 300])
anything = st.none() | st.booleans() | sizes | st.floats(allow_nan=False) | names | st.lists(sizes, max_size=3)
objects = st.fixed_dictionaries(
    {
        "kind": names | st.just("tensor"),
        "dtype": st.just("float32") | st.none() | names,
        "shape": st.just([3, 4]) | st.none() | st.lists(sizes, max_size=4),
        "strides": st.just([4, 1]) | st.none() | st.lists(sizes, max_size=4),
        "device": st.just("cpu") | st.none() | names,
        "aliases": st.just([]) | st.lists(sizes, max_size=3),
        "callables": st.just([]) | st.lists(names, max_size=3),
        "fits": st.booleans(),
    }
) | st.just(HONEST)  # fmt: skip
bodies = st.one_of(
    st.fixed_dictionaries({"is": st.just("called"), "objects": st.lists(objects, max_size=4)}),
    st.fixed_dictionaries({"is": st.just("copied"), "fits": st.lists(st.booleans(), max_size=4)}),
    st.fixed_dictionaries(
        {"is": st.just("loaded"), "entry_point": st.just("forward") | names, "backward": st.booleans()}
    ),
    st.fixed_dictionaries({"is": st.just("built"), "path": st.sampled_from(["/etc/passwd", "x\0y", "", "/" * 5000])}),
    st.fixed_dictionaries(
        {
            "is": st.just("failed"),
            "reason": st.sampled_from(["load", "binding", "raised", "exited", "memory", "compile", "environment"]),
            "message": names,
            "detail": names,
        }
    ),
    st.fixed_dictionaries({"is": names, "objects": anything, "active": anything}),
)
messages = bodies.map(lambda body: {"seq": "SEQ", **body}) | anything | st.just("EXIT")
says = st.lists(messages, min_size=1, max_size=2)
scripts = st.fixed_dictionaries(
    {"call": st.just([{"seq": "SEQ", "is": "called", "objects": [HONEST]}]) | says, "reread": says},
    optional={"load": says},
)


def run(sandbox: Sandbox, script: dict[str, Any], folder: Path) -> Returned | Failure:
    """Load, call and read again as the grader does; the answer to the call, after a look at what it promises."""
    file = folder / "script.json"
    file.write_text(json.dumps(script))
    program = Program("python", file, ("forward",))
    child = sandbox.start(program, Limits(memory_bytes=1 << 30), time.monotonic() + 5)
    if isinstance(child, Failure):
        assert child.reason is not Reason.ENVIRONMENT
        return child
    assert isinstance(child, Child)
    with child:
        returned = child.call(ARGUMENTS, OUTPUTS, seconds=5)
        if isinstance(returned, Failure):
            assert returned.reason is not Reason.ENVIRONMENT
            return returned
        assert len(returned.outputs) == len(OUTPUTS)
        for claim in returned.claims:
            assert set(claim.aliases) <= {"x", "z"}
            assert all(
                text.isprintable() for text in (claim.kind, *claim.callables, claim.dtype or "", claim.device or "")
            )
            if claim.kind == "tensor":
                assert claim.dtype is not None
                assert claim.shape is not None
                assert claim.strides is not None
                assert len(claim.shape) == len(claim.strides)
            assert min((*(claim.shape or ()), *(claim.strides or ())), default=0) >= 0
        again = child.reread(0, seconds=5)
        assert isinstance(again, Failure) or len(again) == len(OUTPUTS)
        return returned


@given(scripts)
@example({"call": [{"seq": "SEQ", "is": "called", "objects": [{**HONEST, "strides": []}]}], "reread": ["EXIT"]})
@example({"load": [{"seq": "SEQ", "is": "called", "objects": []}], "call": [], "reread": []})
@example({"load": ["EXIT"], "call": [], "reread": []})
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_script_of_a_child_makes_the_grader_raise(puppets: Sandbox, tmp_path: Path, script: dict[str, Any]) -> None:
    run(puppets, script, tmp_path)


@given(says)
@example([{"seq": "SEQ", "is": "loaded", "entry_point": "forward", "backward": False}])
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_script_of_a_compiler_makes_the_grader_raise(puppets: Sandbox, tmp_path: Path, script: list[Any]) -> None:
    directory = tmp_path / "build"
    directory.mkdir(exist_ok=True)
    (directory / "script.json").unlink(missing_ok=True)
    (directory / "script.json").write_text(json.dumps({"build": script}))
    built = puppets.compile(CompileJob("kernel.so", directory), Limits(memory_bytes=1 << 30), 5)
    assert isinstance(built, Failure)
    assert built.reason is not Reason.ENVIRONMENT


def test_an_honest_script_is_heard(puppets: Sandbox, tmp_path: Path) -> None:
    called = {"seq": "SEQ", "is": "called", "objects": [{**HONEST, "aliases": [0, 2]}, {**HONEST, "fits": False}]}
    returned = run(puppets, {"call": [called], "reread": [{"seq": "SEQ", "is": "copied", "fits": [True]}]}, tmp_path)
    assert isinstance(returned, Returned)
    assert returned.claims[0].aliases == ("x", "z")
    assert returned.outputs[0] is not None
    assert returned.outputs[1] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strides": []}, "0 strides for 2 dimensions"),
        ({"shape": [-3, 4]}, "shape has the wrong type"),
        ({"strides": [-4, 1]}, "strides has the wrong type"),
        ({"shape": [10**9] * 3, "strides": [0, 0, 0]}, "more elements than there can be"),
        ({"aliases": [1]}, "an argument that is no tensor"),
        ({"aliases": [3]}, "an argument that is no tensor"),
        ({"aliases": [-1]}, "aliases has the wrong type"),
        ({"aliases": [2, 0]}, "aliases out of order"),
        ({"dtype": None}, "a tensor without dtype"),
        ({"dtype": "float32\n"}, "dtype has the wrong type"),
        ({"device": "cpu\u001b[2J"}, "device has the wrong type"),
        ({"kind": "ndarray"}, "memory of something that is no tensor"),
    ],
)  # fmt: skip
def test_a_claim_that_cannot_be_true_is_a_breach(
    puppets: Sandbox, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    called = {"seq": "SEQ", "is": "called", "objects": [{**HONEST, **change}]}
    failure = run(puppets, {"call": [called], "reread": []}, tmp_path)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.PROTOCOL
    assert message in failure.message


def test_more_copies_than_outputs_are_a_breach(puppets: Sandbox, tmp_path: Path) -> None:
    called = {"seq": "SEQ", "is": "called", "objects": [HONEST] * 3}
    failure = run(puppets, {"call": [called], "reread": []}, tmp_path)
    assert isinstance(failure, Failure)
    assert failure.message == "broke the protocol: it copied more outputs than there are"


@pytest.mark.parametrize(("operation", "reason"), [("load", "raised"), ("call", "load"), ("call", "compile")])
def test_a_reason_of_another_operation_is_a_breach(
    puppets: Sandbox, tmp_path: Path, operation: str, reason: str
) -> None:
    failed = {"seq": "SEQ", "is": "failed", "reason": reason, "message": "", "detail": ""}
    failure = run(puppets, {"call": [], "reread": [], operation: [failed]}, tmp_path)
    assert isinstance(failure, Failure)
    assert failure.message == "broke the protocol: a reason that a child may not claim here"


def test_arguments_that_no_message_holds_are_the_graders_own_mistake(puppets: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(json.dumps({"call": [{"seq": "SEQ", "is": "called", "objects": [HONEST]}]}))
    child = puppets.start(Program("python", file, ("forward",)), Limits(memory_bytes=1 << 30), time.monotonic() + 5)
    assert isinstance(child, Child)
    with child:
        long = ValueArgument("text", "x" * (2 << 20))
        with pytest.raises(ValueError, match="the arguments cannot be sent"):
            child.call([argument(X), long], [spec(X)], seconds=5)
        # And the child goes on.
        assert isinstance(child.call([argument(X)], [spec(X)], seconds=5), Returned)


def test_memory_that_is_not_to_be_had_is_the_machines_fault(puppets: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text("{}")
    child = puppets.start(Program("python", file, ("forward",)), Limits(memory_bytes=1 << 30), time.monotonic() + 5)
    assert isinstance(child, Child)
    huge = TensorArgument("x", torch.zeros(()), (), 0, 1 << 60)
    with child, pytest.raises(host.SandboxError, match="of memory to share"):
        child.call([huge], [], seconds=5)
