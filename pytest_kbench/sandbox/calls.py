"""One loaded candidate as the grader holds it: place arguments, call, and judge memory by what is there afterwards.

Nothing that the child says of an output is believed: outputs are private copies of shared memory, taken once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import TracebackType

import torch

from ..record import Reason
from . import driver, sanitizer, wire
from .buffers import SharedBuffer, mislead, poison, same_bytes, shared_buffer, tensor_over
from .connection import Connection, Overtime
from .kept import Kept
from .limits import LayerReport
from .outcome import (
    Failure,
    NoDeviceMemory,
    OutputClaim,
    OutputSpec,
    Program,
    Returned,
    SandboxError,
    TensorArgument,
    ValueArgument,
)
from .output import one_line


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Element strides of a dense row-major tensor, as torch gives them (a dimension of size 0 counts as 1)."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(slots=True)
class _Slot:
    """What one position of the argument list used last: its buffer, and the image of its storage, if it has gaps."""

    buffer: SharedBuffer
    layout: dict[str, object]
    image: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    """One tensor argument of the call in progress; `sent` is what was written to shared memory."""

    argument: TensorArgument
    slot: _Slot
    sent: torch.Tensor
    dense: bool


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One output of the call in progress, or held."""

    spec: OutputSpec
    buffer: SharedBuffer

    def poison(self) -> None:
        """Fill it with what nobody computes."""
        poison(self.buffer.data, self.spec.dtype)

    def copy(self) -> torch.Tensor:
        """A private copy of what is there now."""
        return self.buffer.copy(self.spec.dtype, self.spec.shape)


def _over(storage: torch.Tensor, argument: TensorArgument) -> torch.Tensor:
    """The argument's elements in a flat private tensor of its storage."""
    shape, strides = tuple(argument.values.shape), argument.strides
    return tensor_over(storage.untyped_storage(), storage.dtype, shape, strides, argument.offset)


def _write_through(target: torch.Tensor, values: torch.Tensor) -> None:
    """Copy elements; where a stride is 0, all along it are one element, and the first is copied."""
    for dimension, (stride, size) in enumerate(zip(target.stride(), target.shape, strict=True)):
        if stride == 0 and size > 1:
            target = target.narrow(dimension, 0, 1)
            values = values.narrow(dimension, 0, 1)
    target.copy_(values)


def settle(device: torch.device) -> None:
    """Wait until what this process asked of a GPU is done: other processes see memory as it is then."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def give_back(kept: Kept, connection: Connection, *, sound: bool) -> None:
    """After a connection was closed: its child's folder is nobody's again."""
    kept.take_back(ended=connection.ended is not None, asked=connection.unanswered, sound=sound)


_APART = 1 << 10  # added to positions of arguments in buffers that other calls do not use
_GRADIENTS = -1  # the hold number of gradients' buffers
_SPARE_BYTES = 64 << 20  # of released buffers that are kept for later calls


class Child:
    """One candidate, loaded in a process of its own. For one thread at a time."""

    def __init__(self, connection: Connection, program: Program, loaded: wire.Loaded, kept: Kept | None = None) -> None:
        self.entry_point = loaded.entry_point
        self.has_backward = loaded.backward  # a function of its own for gradients; else autograd is asked
        self.kept = kept
        self._sound: bool | None = None  # whether a call came back
        self.connection = connection
        self.program = program
        self.device = torch.device(program.device)
        self._slots: dict[int, _Slot] = {}
        self._held: dict[int, list[_Waiting | None]] = {}
        self._called: dict[int, tuple[Sequence[TensorArgument | ValueArgument], list[_Placed]]] = {}
        self._spare: list[SharedBuffer] = []
        self._new: list[SharedBuffer] = []
        self._drop: list[SharedBuffer] = []  # that the child may still have mapped

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it can be called again; one whose process ended since the last call cannot."""
        return self.connection.poll()

    @property
    def sound(self) -> bool:
        """Whether a call has come back."""
        return self._sound is True

    @property
    def has_graph(self) -> bool:
        """Whether autograd can know what it does; where outputs are filled it cannot."""
        return self.program.binding != "tvm-ffi"

    @property
    def layers(self) -> LayerReport:
        """Which layers of the lock-down hold for it."""
        return self.connection.report

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return self.connection.pid

    def pause(self) -> None:
        """Stop it and all that it started: no processor time is used until `resume`, or until it is asked again."""
        self.connection.pause()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self.connection.resume()

    def call(
        self,
        arguments: Sequence[TensorArgument | ValueArgument],
        outputs: Sequence[OutputSpec],
        *,
        seconds: float,
        hold: int = 0,
        overtime: float = 0.0,
        leaves: Sequence[int] = (),
        apart: bool = False,
    ) -> Returned | Failure:
        """Call the candidate once, and copy what it left.

        `seconds` bound the call itself; `overtime` are further ones that it may spend on compiling. Buffers are used
        again by position, so that a second call of the same layout sees the same addresses with new values; those of
        calls that are `apart` are others, so that the arguments of the call before them stay what they are. Outputs of
        each `hold` number have buffers of their own, and can be read again. `leaves` are positions of arguments whose
        gradients will be asked for with `backward`, unless the candidate has a function of its own for that.

        Raises `ValueError` for an argument that does not fit its own storage, and for arguments whose description is
        too long for a message; `SandboxError` where there is no memory to share.
        """
        begun = time.monotonic()
        placed: list[_Placed] = []
        described: list[Mapping[str, object]] = []
        for index, argument in enumerate(arguments):
            if isinstance(argument, TensorArgument):
                placed.append(self._place(index + (_APART if apart else 0), argument))
                described.append(placed[-1].slot.layout)
            else:
                described.append(describe_value(argument.value))
        waiting = self._await_outputs(outputs, hold)
        self._called[hold] = arguments, placed
        body = {
            "arguments": described,
            "outputs": [_described(each) for each in waiting],
            "hold": hold,
            "leaves": list(leaves),
            "keep_holds": [each for each in self._held if each != _GRADIENTS],
        }
        return self._answered("call", body, arguments, placed, waiting, begun, seconds, overtime)

    def backward(
        self,
        cotangents: Mapping[int, TensorArgument],
        gradients: Sequence[OutputSpec | None],
        *,
        seconds: float,
        hold: int = 0,
        overtime: float = 0.0,
        how: str | None = None,
    ) -> Returned | Failure:
        """The gradients of the call with that `hold` number, once, as its `Returned.outputs`.

        `cotangents` go by the number of the output they belong to. `gradients` says what is due: one per argument of
        the task's `grad` where the candidate has a `backward`, `None` for an absent one; else one per leaf of the call.
        `how` is a case's `backward`. Arguments of the call and cotangents are compared with what was sent.
        """
        if not self.has_backward and not self.has_graph:
            return Returned((self._claim_of(None),) * len(gradients), (None,) * len(gradients), {}, (), (), {})
        begun = time.monotonic()
        arguments, before = self._called[hold]
        placed = [self._place(-1 - index, each) for index, each in cotangents.items()]
        waiting = self._await_outputs(gradients, _GRADIENTS)
        body = {
            "cotangents": [[index, each.slot.layout] for index, each in zip(cotangents, placed, strict=True)],
            "gradients": [_described(each) for each in waiting],
            "hold": hold,
            "backward": how,
        }
        sources = [*cotangents.values(), *arguments]
        return self._answered("backward", body, sources, [*placed, *before], waiting, begun, seconds, overtime)

    def _answered(
        self,
        operation: str,
        body: Mapping[str, object],
        arguments: Sequence[TensorArgument | ValueArgument],
        placed: Sequence[_Placed],
        waiting: Sequence[_Waiting | None],
        begun: float,
        seconds: float,
        overtime: float,
    ) -> Returned | Failure:
        """Ask for a call or a backward, and collect what it left."""
        settle(self.device)
        revealed = time.monotonic()
        allowed = Overtime(overtime, self.program.compiles)
        body = {**body, "drop": [each.number for each in self._drop]}
        deadline = revealed + seconds
        try:
            reply = self.connection.request(operation, body, deadline, wire.Called, self._new, allowed)
        except wire.WireError as error:
            raise ValueError(f"the arguments cannot be sent: {error}") from error
        for buffer in self._new:
            buffer.close()
        self._new, self._drop = [], []
        answered = time.monotonic()
        self._sound = self._sound or not isinstance(reply, Failure)
        if isinstance(reply, Failure):
            return sanitizer.judged(reply, self.program)
        if contradiction := self._contradiction(reply, arguments, len(waiting)):
            return self.connection.breach(contradiction)
        returned = self._collect(reply, arguments, placed, waiting)
        returned.seconds.update(place=revealed - begun, call=answered - revealed, collect=time.monotonic() - answered)
        return returned

    def reread(self, hold: int, *, seconds: float) -> tuple[torch.Tensor | None, ...] | Failure:
        """The outputs of the last call with that `hold` number, as they are now.

        A `Failure` too where this child has made no such call, or was told to forget it.
        """
        if hold not in self._held:
            return Failure(Reason.EXITED, "the outputs of that call are gone: the process that held them has ended")
        waiting = [each for each in self._held[hold] if each is not None]
        if self.program.binding == "tvm-ffi" and self.alive:  # they lie in shared memory already
            return tuple(each.copy() for each in waiting)
        for each in waiting:
            each.poison()
        settle(self.device)
        reply = self.connection.request("reread", {"hold": hold}, time.monotonic() + seconds, wire.Copied)
        if isinstance(reply, Failure):
            return reply
        if len(reply.fits) > len(waiting):
            return self.connection.breach("it copied more outputs than there are")
        fits = (*reply.fits, *([False] * len(waiting)))
        return tuple(each.copy() if fit else None for each, fit in zip(waiting, fits, strict=False))

    def release(self) -> None:
        """Forget held outputs; the child is told with the next call. Later calls use their buffers again."""
        self._spare += [each.buffer for waiting in self._held.values() for each in waiting if each is not None]
        self._held.clear()
        self._called.clear()
        while sum(each.size for each in self._spare) > _SPARE_BYTES:
            self._retire(self._spare.pop(0))

    def close(self) -> None:
        """Kill it, and all that it started."""
        self.connection.close()
        if self.kept is not None:
            give_back(self.kept, self.connection, sound=self._sound is not False)
        for buffer in self._new:
            buffer.close()
        self._new = []
        self._slots.clear()
        self._held.clear()
        self._called.clear()
        self._spare.clear()

    # Placing.

    def _buffer(self, known: SharedBuffer | None, used: int) -> SharedBuffer:
        """The known buffer if `used` bytes fit, else a spare one, else a new one."""
        if known is not None and known.capacity >= used:
            known.arrange(used)
            return known
        found = next((each for each in self._spare if each.capacity >= used), None)
        if found is not None:
            self._spare.remove(found)
        else:
            try:
                found = shared_buffer(used, self.device)
            except OSError as error:
                kind = NoDeviceMemory if isinstance(error, driver.NoMemory) else SandboxError
                raise kind(f"no {used} bytes of memory to share with a child: {error}") from error
            self.connection.shared_bytes += self._counted(found)
            self._new.append(found)
        if known is not None:
            self._retire(known)
        found.arrange(used)
        return found

    def _retire(self, buffer: SharedBuffer) -> None:
        self.connection.shared_bytes -= self._counted(buffer)
        if buffer in self._new:
            self._new.remove(buffer)
            buffer.close()
        else:
            self._drop.append(buffer)

    def _counted(self, buffer: SharedBuffer) -> int:
        """Bytes of the machine's memory that the kernel counts as the child's too."""
        return 0 if self.device.type == "cuda" else buffer.size

    def _place(self, index: int, argument: TensorArgument) -> _Placed:
        values, itemsize = argument.values, argument.values.dtype.itemsize
        if argument.storage < _reach(argument):
            raise ValueError(f"argument {argument.name}: a storage of {argument.storage} elements is too small")
        known = self._slots.get(index)
        used = argument.storage * itemsize
        buffer = self._buffer(known.buffer if known else None, used)
        layout = describe_tensor(buffer, values.dtype, tuple(values.shape), argument.strides, argument.offset, used)
        dense = (
            argument.offset == 0 and argument.storage == values.numel()
            and (values.numel() == 0 or argument.strides == contiguous_strides(values.shape))
        )  # fmt: skip
        image = None
        if dense:
            sent = values if values.is_contiguous() else values.contiguous()
        else:
            image = known.image if known is not None and known.layout == layout else None
            if image is None:
                image = torch.empty(argument.storage, dtype=values.dtype, device=values.device)
                mislead(image.view(torch.uint8), values.dtype)
            if values.numel():
                _write_through(_over(image, argument), values)
            sent = image
        slot = self._slots[index] = _Slot(buffer, layout, image)
        buffer.write(sent)
        return _Placed(argument, slot, sent, dense)

    def _await_outputs(self, outputs: Sequence[OutputSpec | None], hold: int) -> list[_Waiting | None]:
        known = self._held.get(hold, [])
        for spare in known[len(outputs) :]:
            if spare is not None:
                self._retire(spare.buffer)
        waiting: list[_Waiting | None] = []
        for index, spec in enumerate(outputs):
            last = known[index] if index < len(known) else None
            if spec is None:
                if last is not None:
                    self._retire(last.buffer)
                waiting.append(None)
                continue
            used = math.prod(spec.shape) * spec.dtype.itemsize
            made = _Waiting(spec, self._buffer(None if last is None else last.buffer, used))
            made.poison()
            waiting.append(made)
        self._held[hold] = waiting
        return waiting

    # Collecting.

    def _claim_of(self, spec: OutputSpec | None) -> OutputClaim:
        if spec is None:
            return OutputClaim("NoneType", None, None, None, None)
        dtype = str(spec.dtype).removeprefix("torch.")
        return OutputClaim("tensor", dtype, spec.shape, contiguous_strides(spec.shape), str(self.device))

    def _contradiction(
        self, reply: wire.Called, arguments: Sequence[TensorArgument | ValueArgument], outputs: int
    ) -> str | None:
        """What of a well-formed reply cannot be true of this call."""
        if self.program.binding == "tvm-ffi":
            return "it described objects, where outputs are filled" if reply.objects else None
        if any(each.fits for each in reply.objects[outputs:]):
            return "it copied more outputs than there are"
        tensors = {index for index, each in enumerate(arguments) if isinstance(each, TensorArgument)}
        if any(not tensors.issuperset(each.aliases) for each in reply.objects):
            return "it named an argument that is no tensor"
        return None

    def _collect(
        self,
        reply: wire.Called,
        arguments: Sequence[TensorArgument | ValueArgument],
        placed: Sequence[_Placed],
        waiting: Sequence[_Waiting | None],
    ) -> Returned:
        if self.program.binding == "tvm-ffi":
            claims = tuple(self._claim_of(None if each is None else each.spec) for each in waiting)
            outputs = tuple(None if each is None else each.copy() for each in waiting)
        else:
            claims = tuple(_named_claim(each, arguments) for each in reply.objects)
            pairs = zip_longest(waiting, reply.objects[: len(waiting)])
            outputs = tuple(
                None if each is None or not _fits(claim, each.spec) else each.copy() for each, claim in pairs
            )
        in_place: dict[str, torch.Tensor] = {}
        changed: list[str] = []
        overran: list[str] = []
        for each in placed:
            self._examine(each, in_place, changed, overran)
        overran += [
            f"output {index}" for index, each in enumerate(waiting) if each is not None and each.buffer.overran()
        ]
        return Returned(claims, outputs, in_place, tuple(changed), tuple(overran), {})

    def _examine(
        self, placed: _Placed, in_place: dict[str, torch.Tensor], changed: list[str], overran: list[str]
    ) -> None:
        """Compare one argument's memory with what was sent, by bytes."""
        argument, buffer, sent = placed.argument, placed.slot.buffer, placed.sent
        beside = buffer.overran()
        if argument.in_place or not buffer.holds(sent):
            found = buffer.copy(sent.dtype, (argument.storage,))
            elements = _over(found, argument).clone(memory_format=torch.contiguous_format)
            if argument.in_place:
                in_place[argument.name] = elements
            else:
                before = sent.reshape(-1) if placed.dense else _over(sent, argument)
                before = before.clone(memory_format=torch.contiguous_format)
                if not same_bytes(before, elements):
                    changed.append(argument.name)
            if not placed.dense:  # with the elements as they were, whatever still differs lies between them
                if elements.numel():
                    _write_through(_over(found, argument), _over(sent, argument))
                beside = beside or not same_bytes(found, sent.reshape(-1))
        if beside:
            overran.append(argument.name)


def _reach(argument: TensorArgument) -> int:
    """Elements of storage that an argument needs."""
    shape = argument.values.shape
    if len(argument.strides) != len(shape):
        raise ValueError(f"argument {argument.name}: {len(argument.strides)} strides for {len(shape)} dimensions")
    if argument.values.numel() == 0:
        return 0
    return argument.offset + 1 + sum((size - 1) * step for size, step in zip(shape, argument.strides, strict=True))


def describe_tensor(
    buffer: SharedBuffer,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    offset: int,
    used: int | None = None,
    begin: int = 0,
) -> dict[str, object]:
    """A tensor in a buffer, for the wire: its storage has `used` bytes from the byte `begin` of the data on."""
    return {
        "type": "tensor",
        "buffer": buffer.number,
        "used": buffer.used if used is None else used,
        "dtype": str(dtype).removeprefix("torch."),
        "shape": list(shape),
        "strides": list(contiguous_strides(shape) if strides is None else strides),
        "offset": offset,
        "begin": begin,
    }


def describe_value(value: int | float | bool | str | None) -> dict[str, object]:
    """A value for the wire; numbers travel as text, exactly."""
    if isinstance(value, (bool, str)) or value is None:
        return {"type": "plain", "value": value}
    if isinstance(value, int):
        return {"type": "int", "value": str(value)}
    return {"type": "float", "value": float(value).hex()}


def _described(waiting: _Waiting | None) -> dict[str, object] | None:
    """Where an output is to be filled or copied, for the wire."""
    return None if waiting is None else describe_tensor(waiting.buffer, waiting.spec.dtype, waiting.spec.shape, None, 0)


def _fits(claim: wire.ReturnedObject | None, spec: OutputSpec) -> bool:
    if claim is None or not claim.fits:
        return False
    return claim.dtype == str(spec.dtype).removeprefix("torch.") and claim.shape == spec.shape


def _named_claim(claim: wire.ReturnedObject, arguments: Sequence[TensorArgument | ValueArgument]) -> OutputClaim:
    aliases = tuple(arguments[index].name for index in claim.aliases)
    kind, device = one_line(claim.kind), None if claim.device is None else one_line(claim.device)
    callables = tuple(map(one_line, claim.callables))
    return OutputClaim(kind, claim.dtype, claim.shape, claim.strides, device, aliases, callables)
