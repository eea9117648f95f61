"""Fused operators taken apart, so that what is inside them can be wrong too: the audit's own table for `make_fx`.

Most entries are torch's. Norms and variances are written here, in the plain two-pass form: torch's own end in
primitives that know no axis to change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

# fmt: off
_TORCHS: Final = (
    "_softmax", "_log_softmax", "_safe_softmax", "native_batch_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training", "native_group_norm", "baddbmm", "addmv", "silu", "gelu",
    "_fused_rms_norm", "logsumexp", "softplus", "log_sigmoid_forward", "mish", "elu", "celu",
    "selu", "hardswish", "hardsigmoid", "_scaled_dot_product_flash_attention_for_cpu", "mse_loss", "smooth_l1_loss",
    "huber_loss", "binary_cross_entropy", "std", "std_mean", "glu", "addcmul", "addcdiv", "rsub", "lerp",
    "native_layer_norm_backward", "_softmax_backward_data", "_log_softmax_backward_data", "threshold_backward",
    "nll_loss_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "leaky_relu_backward",
    "hardtanh_backward", "native_batch_norm_backward", "native_group_norm_backward", "_fused_rms_norm_backward",
)
# fmt: on


@functools.cache
def table() -> Mapping[Any, Callable[..., Any]]:
    """The decompositions, by operator; made once, because torch's registry takes a moment to load."""
    import torch._refs
    from torch._decomp import decomposition_table as known

    aten = torch.ops.aten
    packets = [getattr(aten, name) for name in _TORCHS if hasattr(aten, name)]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return {
        **{each: known[each] for each in overloads if each in known},
        aten.native_layer_norm.default: _layer_norm,
        aten.native_batch_norm.default: _batch_norm,
        aten.nll_loss_forward.default: _nll_loss,
        aten.addmm.default: _addmm,
        aten.var.correction: _variance,
        aten.var_mean.correction: _variance_and_mean,
    }


def fused() -> frozenset[str]:
    """Names of the operators that are taken apart."""
    return frozenset(each._schema.name.partition("::")[2] for each in table())


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """aten::native_layer_norm: the mean over the last dimensions, then that of squared differences."""
    axes = list(range(x.dim() - len(shape), x.dim()))
    wide = _wide(x)
    mean = wide.mean(axes, keepdim=True)
    centred = wide - mean
    rstd = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + eps)
    y = centred * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype), mean, rstd


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """aten::native_batch_norm: at inference by the given statistics; in training as torch takes it apart."""
    if training or mean is None or variance is None:
        from torch._decomp.decompositions import native_batch_norm

        found: tuple[Tensor, Tensor, Tensor] = native_batch_norm(
            x, weight, bias, mean, variance, training, momentum, eps
        )
        return found

    def per_channel(values: Tensor) -> Tensor:
        return _wide(values).reshape(-1, *[1] * (x.dim() - 2))

    y = (_wide(x) - per_channel(mean)) * per_channel(torch.rsqrt(_wide(variance) + eps))
    y = y if weight is None else y * per_channel(weight)
    y = y if bias is None else y + per_channel(bias)
    return y.to(x.dtype), mean.new_zeros(0), mean.new_zeros(0)


def _nll_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int) -> tuple[Tensor, Tensor]:
    """aten::nll_loss_forward: of rows, without weights, here; anything else as torch takes it apart."""
    if weight is not None or x.dim() != 2:
        from torch._decomp.decompositions import nll_loss_forward

        found: tuple[Tensor, Tensor] = nll_loss_forward(x, target, weight, reduction, ignored)
        return found
    counted = target != ignored
    picked = -torch.gather(x, 1, torch.where(counted, target, 0).unsqueeze(1)).squeeze(1)
    losses = torch.where(counted, picked, 0.0)
    count = counted.sum().to(x.dtype)
    if reduction == 0:
        return losses, x.new_zeros(())
    total = losses.sum()
    return (total / count if reduction == 1 else total), count


def _addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """aten::addmm: the product in float32 for half types, then the bias."""
    product = torch.mm(_wide(a), _wide(b))
    product = product if alpha == 1 else product * alpha
    return (product + (bias if beta == 1 else bias * beta)).to(a.dtype)


def _variance_and_mean(
    x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """aten::var_mean: the sum of squared differences over their number less the correction."""
    axes = list(range(x.dim())) if not dim else list(dim)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    spread = (centred * centred).sum(axes, keepdim=keepdim) / (count - (1 if correction is None else correction))
    return spread, mean if keepdim else mean.reshape(spread.shape)


def _variance(
    x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """aten::var."""
    return _variance_and_mean(x, dim, correction=correction, keepdim=keepdim)[0]
