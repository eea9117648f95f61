"""Formulas that people write where a reference names one operator: a softmax as exp(x - max) / sum.

Their gradients are as right, but round where the operator's own do not. Of x - max, autograd sends back to the largest
element what a row has in sum, which is zero up to all that the row rounds. A reference that runs once more under
`Composed` shows what that comes to.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_AFFORDABLE: Final = 0.25  # by which a logarithm of weights may be off


class Composed(TorchFunctionMode):
    """Run a reference under this: what it calls by one name is made of simple operators, where there is a formula."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The formula instead, if there is one and it knows these arguments."""
        kwargs, formula, made = kwargs or {}, _FORMULAS.get(func), None
        if formula is not None and _takes(formula, args, kwargs):
            made = formula(*args, **kwargs)
        return func(*args, **kwargs) if made is None else made


def _takes(formula: Callable[..., Tensor | None], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(formula).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


class _Softmax(torch.autograd.Function):
    """Softmax whose backward keeps a logarithm per row instead of all weights (Dao et al., 2022).

    Not where no kernel can afford it: where rounding that logarithm would change the weights by a quarter.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        logarithm, index = _logarithm(x, dim)
        y = _weights(x, logarithm, dim)
        ctx.dim = dim
        ctx.save_for_backward(x, y / y.sum(dim, keepdim=True), logarithm, index)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, y, logarithm, index = ctx.saved_tensors
        products = gradients[0] * y
        total = products.sum(ctx.dim, keepdim=True)
        parts = _weights(x, logarithm, ctx.dim) * (gradients[0] - total)
        return _with_the_rest(parts, index, ctx.dim, total, products), None


def _weights(x: Tensor, logarithm: Tensor, dim: int) -> Tensor:
    exact = (x - x.amax(dim, keepdim=True)).exp()
    coarse = _unit_of(logarithm) > _AFFORDABLE
    return torch.where(coarse, exact / exact.sum(dim, keepdim=True), (x - logarithm).exp())


class _LogSoftmax(torch.autograd.Function):
    """x - logsumexp(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        logarithm, index = _logarithm(x, dim)
        ctx.dim = dim
        ctx.save_for_backward(x - logarithm, index)
        return x - logarithm

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        logs, index = ctx.saved_tensors
        total = gradients[0].sum(ctx.dim, keepdim=True)
        return _with_the_rest(gradients[0] - logs.exp() * total, index, ctx.dim, total, gradients[0]), None


def _logarithm(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The logarithm of each row's sum of exponentials, and where its largest element is."""
    largest, index = x.max(dim, keepdim=True)
    return largest + (x - largest).exp().sum(dim, keepdim=True).log(), index


def _with_the_rest(parts: Tensor, index: Tensor, dim: int, total: Tensor, terms: Tensor) -> Tensor:
    """A row of gradients, and at its largest element what they have in sum, which is zero but for rounding.

    Autograd sends that back through x - max. One element decides, so no rounding of what it is the sum of may be small
    by chance: `total` and the `terms` that it is made of move by a unit, in the direction in which the sum has moved.
    All of the total may be lost, where adding its share to each term changes none of them.
    """
    left, size = parts.sum(dim, keepdim=True), total.abs()
    noise = 2.0 * _unit_of(size + terms.square().sum(dim, keepdim=True).sqrt())
    noise = noise + torch.minimum(size, _unit_of(terms.abs().sum(dim, keepdim=True)))
    return parts.scatter_add(dim, index, torch.where(left < 0, left - noise, left + noise))


def _unit_of(values: Tensor) -> Tensor:
    """How far rounding moves such values: a product is rounded, even this one."""
    return (values * 1.0 - values).abs()


def _normalised(function: type[torch.autograd.Function]) -> Callable[..., Tensor | None]:
    """The formula of an operator along one dimension."""

    def formula(
        input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
    ) -> Tensor | None:
        if dim is None or not input.numel():
            return None
        made: Tensor = function.apply(input if dtype is None else input.to(dtype), dim)
        return made

    return formula


_softmax, _log_softmax = _normalised(_Softmax), _normalised(_LogSoftmax)


def _cross_entropy(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor | None:
    plain = not target.is_floating_point() and not kwargs.get("label_smoothing") and len(args) < 6
    logs = _log_softmax(input, min(1, input.dim() - 1)) if plain else None
    kwargs.pop("label_smoothing", None)
    return None if logs is None else F.nll_loss(logs, target, *args, **kwargs)


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    axes = tuple(range(-len(shape), 0))
    apart = x - x.mean(axes, keepdim=True)
    made = apart * (apart.square().mean(axes, keepdim=True) + eps).rsqrt()
    made = made if weight is None else made * weight
    return made if bias is None else made + bias


def _rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor | None:
    if eps is None:
        return None
    made = x * (x.square().mean(tuple(range(-len(shape), 0)), keepdim=True) + eps).rsqrt()
    return made if weight is None else made * weight


def _gelu(input: Tensor, approximate: str = "none") -> Tensor | None:
    return input * 0.5 * (1.0 + (input * math.sqrt(0.5)).erf()) if approximate == "none" else None


def _silu(input: Tensor, inplace: bool = False) -> Tensor | None:
    return None if inplace else input * input.sigmoid()


_FORMULAS: Final[Mapping[Any, Callable[..., Tensor | None]]] = {
    **dict.fromkeys((torch.softmax, F.softmax, Tensor.softmax), _softmax),
    **dict.fromkeys((torch.log_softmax, F.log_softmax, Tensor.log_softmax), _log_softmax),
    F.cross_entropy: _cross_entropy,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.gelu: _gelu,
    F.silu: _silu,
}
