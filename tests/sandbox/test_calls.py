"""Values arrive as declared, outputs are judged from memory, and memory that was not to be written is watched."""

from __future__ import annotations

import fcntl
import os

import pytest
import torch

from pytest_kbench.record import Reason
from pytest_kbench.sandbox import buffers
from pytest_kbench.sandbox.calls import contiguous_strides
from pytest_kbench.sandbox.host import Child, Failure, OutputSpec, Returned, TensorArgument, ValueArgument

from .conftest import Behaving, Start, X, argument, spec

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.fixture
def identity(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Child:
    file = tmp_path_factory.mktemp("identity") / "identity.py"
    file.write_text("def forward(x): return x.clone()\n")
    return start(file)


def test_every_dtype_travels(identity: Child) -> None:
    for dtype in DTYPES:
        values = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
        returned = identity.call([argument(values)], [spec(values)], seconds=5)
        assert isinstance(returned, Returned)
        assert returned.outputs[0] is not None
        assert returned.outputs[0].dtype is dtype
        assert torch.equal(returned.outputs[0].view(torch.uint8), values.view(torch.uint8))
        assert (returned.changed, returned.overran) == ((), ())


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "storage"),
    [
        ((3, 4), (4, 1), 0, 12),
        ((3, 4), (1, 3), 0, 12),
        ((3, 4), (10, 2), 5, 40),
        ((3, 4), (0, 1), 0, 4),
        ((3, 4), (1, 0), 3, 6),
        ((3, 4), (0, 0), 0, 1),
        ((0, 4), (4, 1), 0, 0),
        ((0, 4), (4, 1), 7, 16),
        ((), (), 0, 1),
        ((), (), 2, 3),
        ((1, 1, 5), (99, 7, 1), 1, 6),
    ],
)
def test_every_layout_travels(
    identity: Child, behave: Behaving, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, storage: int
) -> None:
    values = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
    for dimension, stride in enumerate(strides):
        if stride == 0:
            values = values.narrow(dimension, 0, 1).expand(shape)
    sent = TensorArgument("x", values, strides, offset, storage)
    for _ in range(2):  # the second time from what is kept of the first
        returned = identity.call([sent], [OutputSpec(torch.float32, shape)], seconds=5)
        assert isinstance(returned, Returned)
        assert returned.outputs[0] is not None
        assert torch.equal(returned.outputs[0], values)
        assert (returned.changed, returned.overran) == ((), ())
    seen = behave("describe", x=sent, like=torch.zeros(3 + len(shape), dtype=torch.int64)).outputs[0]
    assert seen is not None
    assert seen.tolist() == [offset, storage, *strides, 0]


def test_a_storage_that_is_too_small_is_the_graders_own_mistake(behave: Behaving) -> None:
    with pytest.raises(ValueError, match="argument x: a storage of 11 elements is too small"):
        behave("add_one", x=TensorArgument("x", X, (4, 1), 0, 11))
    with pytest.raises(ValueError, match="1 strides for 2 dimensions"):
        behave("add_one", x=TensorArgument("x", X, (4,), 0, 12))


def test_the_rest_of_a_storage_is_huge_and_finite_for_who_multiplies_it_by_zero(behave: Behaving) -> None:
    sent = TensorArgument("x", X, (10, 2), 5, 40)
    counted = behave("sum_of_gap", x=sent, like=torch.zeros(1, dtype=torch.int64)).outputs[0]
    assert counted is not None
    assert counted.item() == 40 - 12


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_what_nobody_should_use_is_finite_huge_and_of_either_sign(dtype: torch.dtype) -> None:
    memory = torch.zeros(1000, dtype=dtype)
    buffers.mislead(memory.view(torch.uint8), dtype)
    parts = torch.view_as_real(memory) if dtype.is_complex else memory
    assert bool(parts.isfinite().all())
    assert bool((parts.double().abs() > 60_000).all())
    assert bool((parts > 0).any())
    assert bool((parts < 0).any())


def test_plain_values_keep_their_types(behave: Behaving) -> None:
    values = (3, 2.5, True, "text", None, 10**30, float("inf"))
    right = behave("types_of", *values, like=torch.zeros(7)).outputs[0]
    assert right is not None
    assert right.tolist() == [1.0] * 7


def test_new_values_come_at_the_same_address_in_the_same_object(behave: Behaving) -> None:
    for value in range(3):
        marks = behave("same_object_as_before", x=argument(X + value)).outputs[0]
        assert marks is not None
        assert marks.eq(1).all()


def test_small_large_small_in_one_child(identity: Child) -> None:
    for size in (3, 100_000, 3, 0, 50_000):
        values = torch.randn(size)
        returned = identity.call([argument(values)], [spec(values)], seconds=5)
        assert isinstance(returned, Returned)
        assert returned.outputs[0] is not None
        assert torch.equal(returned.outputs[0], values)


def test_more_arguments_than_descriptors_fit_into_a_message(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("many") / "many.py"
    file.write_text("def forward(*xs): return sum(xs)\n")
    child = start(file)
    returned = child.call([argument(X, f"x{i}") for i in range(150)], [spec(X)], seconds=5)
    assert isinstance(returned, Returned)
    assert returned.outputs[0] is not None
    assert torch.equal(returned.outputs[0], X * 150)


def test_outputs_are_held_and_read_again(behave: Behaving) -> None:
    first = behave("add_one", hold=1)
    second = behave("negative", hold=2)
    again = behave.child.reread(1, seconds=5)
    assert isinstance(again, tuple)
    assert again[0] is not None
    assert first.outputs[0] is not None
    assert second.outputs[0] is not None
    assert torch.equal(again[0], first.outputs[0])
    assert torch.equal(second.outputs[0], -X)
    # And a later call goes on after they are released.
    behave.child.release()
    gone = behave.child.reread(1, seconds=5)
    assert isinstance(gone, Failure)
    assert (gone.reason, "are gone" in gone.message) == (Reason.EXITED, True)
    assert behave("add_one").outputs[0] is not None


def test_an_earlier_output_that_changes_is_seen(behave: Behaving) -> None:
    behave("change_earlier_output", hold=1)
    behave("change_earlier_output", hold=2)
    again = behave.child.reread(1, seconds=5)
    assert isinstance(again, tuple)
    assert again[0] is not None
    assert again[0].eq(0).all()


# What lies in memory.


def test_writing_an_input_is_seen(behave: Behaving) -> None:
    returned = behave("write_input")
    assert returned.changed == ("x",)
    assert returned.overran == ()
    # And does not stick.
    assert behave("add_one").changed == ()


def test_writing_an_input_that_lies_scattered_is_seen(behave: Behaving) -> None:
    returned = behave("write_input", x=TensorArgument("x", X, (10, 2), 5, 40))
    assert (returned.changed, returned.overran) == (("x",), ())


def test_an_in_place_argument_is_an_output(behave: Behaving) -> None:
    for sent in (argument(X, in_place=True), TensorArgument("x", X, (10, 2), 5, 40, in_place=True)):
        returned = behave("write_in_place", x=sent)
        assert torch.equal(returned.in_place["x"], X + 1)
        assert (returned.changed, returned.overran) == ((), ())


@pytest.mark.parametrize("behaviour", ["write_after", "write_before"])
def test_writing_beside_a_buffer_is_seen(behave: Behaving, behaviour: str) -> None:
    returned = behave(behaviour)
    assert returned.overran == ("x",)
    assert returned.changed == ()
    assert behave("add_one").overran == ()


@pytest.mark.parametrize("in_place", [False, True])
def test_writing_between_the_rows_is_seen(behave: Behaving, in_place: bool) -> None:
    returned = behave("write_into_gap", x=TensorArgument("x", X, (10, 1), 0, 30, in_place))
    assert returned.overran == ("x",)
    assert returned.changed == ()


def test_a_bent_input_is_straight_again(behave: Behaving) -> None:
    behave("bend_input")
    assert torch.equal(behave("add_one").outputs[0], X + 1)  # type: ignore[arg-type]


def test_free_memory_is_full_of_huge_numbers(behave: Behaving) -> None:
    shares = behave("fresh_memory", like=torch.zeros(6)).outputs[0]
    assert shares is not None
    assert shares.min() > 0.99, shares


def test_mapping_more_than_the_file_kills_the_child_and_not_the_grader(behave: Behaving) -> None:
    failure = behave.fails("grow_mapping")
    assert failure.reason in (Reason.CRASHED, Reason.RAISED)


def test_pages_taken_out_of_a_buffer_do_not_hurt_the_grader(behave: Behaving) -> None:
    returned = behave("punch_hole")
    assert returned.changed or returned.overran


def test_a_buffer_cannot_change_its_size() -> None:
    buffer = buffers.HostBuffer(1000)
    try:
        assert fcntl.fcntl(buffer.fd, fcntl.F_GET_SEALS) & 7 == 7
        for size in (0, buffer.size * 2):
            with pytest.raises(PermissionError):
                os.ftruncate(buffer.fd, size)
    finally:
        buffer.close()


def test_data_is_aligned_as_an_allocator_aligns_it_and_no_better() -> None:
    buffer = buffers.HostBuffer(64)
    assert buffer.address % 128 == 0
    assert buffer.address % 256 != 0
    buffer.close()


@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_is_nothing_that_a_kernel_computes(dtype: torch.dtype) -> None:
    target = torch.zeros(4096, dtype=dtype)
    buffers.poison(target.view(torch.uint8), dtype)
    if dtype.is_floating_point or dtype.is_complex:
        assert target.isnan().all()
    elif dtype is torch.bool:
        assert set(target.view(torch.uint8).unique().tolist()) == {0, 1}
    else:
        assert target.view(torch.uint8).unique().numel() > 100


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3), (3, 0, 2), (1, 1), (4, 1, 5)])
def test_contiguous_strides_are_torchs(shape: tuple[int, ...]) -> None:
    assert contiguous_strides(shape) == torch.empty(shape).stride()


# What is claimed.


def test_what_comes_back_is_described(behave: Behaving) -> None:
    claim = behave("return_transposed").claims[0]
    assert (claim.kind, claim.dtype, claim.shape, claim.strides, claim.device) == (
        "tensor",
        "float32",
        (3, 4),
        (1, 3),
        "cpu",
    )
    assert (claim.aliases, claim.callables) == ((), ())


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [("return_none", "NoneType"), ("return_sparse", "torch.sparse_coo tensor"), ("return_meta", "tensor")],
)
def test_what_is_no_tensor_in_memory_has_no_output(behave: Behaving, behaviour: str, kind: str) -> None:
    returned = behave(behaviour)
    assert returned.claims[0].kind == kind
    assert returned.outputs == (None,)


@pytest.mark.parametrize("behaviour", ["return_double", "return_wrong_shape"])
def test_what_does_not_fit_is_not_taken(behave: Behaving, behaviour: str) -> None:
    assert behave(behaviour).outputs == (None,)


def test_more_outputs_than_expected_are_all_claimed(behave: Behaving) -> None:
    returned = behave("return_tuple")
    assert len(returned.claims) == 2
    assert len(returned.outputs) == 1


@pytest.mark.parametrize("behaviour", ["return_input", "return_view_of_input"])
def test_an_alias_of_an_input_is_named(behave: Behaving, behaviour: str) -> None:
    assert behave(behaviour).claims[0].aliases == ("x",)


def test_a_subclass_and_callable_attributes_are_named(behave: Behaving) -> None:
    assert behave("return_subclass").claims[0].callables == ("Lazy",)
    assert behave("return_with_callable").claims[0].callables == ("hook",)


def test_an_output_that_requires_grad_is_read(behave: Behaving) -> None:
    assert torch.equal(behave("return_requiring_grad").outputs[0], X + 1)  # type: ignore[arg-type]


def test_an_output_that_nobody_wrote_is_huge(behave: Behaving) -> None:
    output = behave("return_empty", x=argument(torch.zeros(64, 64)), like=torch.zeros(64, 64)).outputs[0]
    assert output is not None
    assert bool((output > 1e30).any())


def test_seconds_are_told(behave: Behaving) -> None:
    assert set(behave("add_one").seconds) == {"place", "call", "collect"}


def test_value_arguments_may_be_absent(start: Start, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("absent") / "absent.py"
    file.write_text("def forward(x, mask): return x if mask is not None else x + 1\n")
    returned = start(file).call([argument(X), ValueArgument("mask", None)], [spec(X)], seconds=5)
    assert isinstance(returned, Returned)
    assert torch.equal(returned.outputs[0], X + 1)  # type: ignore[arg-type]
