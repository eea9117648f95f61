"""y = x / sqrt(mean(x^2) + eps) * weight over the last dimension in Triton: a program makes a row.

Going backwards a program takes every so-maniest row, and adds up what those have for the gradient of weight; what the
programs found is added up by torch.
"""

import torch
import triton
import triton.language as tl

PROGRAMS = 264  # that share the rows of a gradient


@triton.jit
def rms_row(x, weight, y, width, eps, BLOCK: tl.constexpr):
    """One row, gone through twice; the second time the caches have it."""
    start = tl.program_id(0).to(tl.int64) * width
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(x + start + index, mask=index < width, other=0.0).to(tl.float32)
        squares += value * value
    scale = 1.0 / tl.sqrt_rn(tl.sum(squares, 0) / width + eps)
    for first in range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(x + start + index, mask=index < width, other=0.0).to(tl.float32)
        w = tl.load(weight + index, mask=index < width, other=0.0).to(tl.float32)
        tl.store(y + start + index, value * scale * w, mask=index < width)


@triton.jit
def rms_gradients(cotangent, x, weight, x_gradient, weight_parts, rows, width, eps, BLOCK: tl.constexpr):
    """For some rows r * (g - z * mean(g * z)), r = 1 / sqrt(mean(x^2) + eps), z = x * r, g = cotangent * weight."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        start = row.to(tl.int64) * width
        squares = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, width, BLOCK):
            index = first + tl.arange(0, BLOCK)
            value = tl.load(x + start + index, mask=index < width, other=0.0).to(tl.float32)
            squares += value * value
        scale = 1.0 / tl.sqrt_rn(tl.sum(squares, 0) / width + eps)
        products = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, width, BLOCK):
            index = first + tl.arange(0, BLOCK)
            value = tl.load(x + start + index, mask=index < width, other=0.0).to(tl.float32)
            c = tl.load(cotangent + start + index, mask=index < width, other=0.0).to(tl.float32)
            w = tl.load(weight + index, mask=index < width, other=0.0).to(tl.float32)
            products += c * w * (value * scale)
        slope = tl.sum(products, 0) / width
        for first in range(0, width, BLOCK):
            index = first + tl.arange(0, BLOCK)
            value = tl.load(x + start + index, mask=index < width, other=0.0).to(tl.float32)
            c = tl.load(cotangent + start + index, mask=index < width, other=0.0).to(tl.float32)
            w = tl.load(weight + index, mask=index < width, other=0.0).to(tl.float32)
            tl.store(x_gradient + start + index, scale * (c * w - value * scale * slope), mask=index < width)
            part = weight_parts + tl.program_id(0).to(tl.int64) * width + index
            sums = tl.load(part, mask=index < width, other=0.0)
            tl.store(part, sums + c * value * scale, mask=index < width)


class RMSNorm(torch.autograd.Function):
    """The kernels, known to autograd."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        """The normed x."""
        dense, weights = x.contiguous(), weight.contiguous()
        y = torch.empty_like(dense)
        width = x.shape[-1]
        block = min(triton.next_power_of_2(max(width, 1)), 4096)
        if x.numel() > 0:
            with torch.cuda.device(x.device):
                rms_row[(x.numel() // width,)](dense, weights, y, width, eps, block, num_warps=max(block // 512, 1))
        ctx.save_for_backward(dense, weights)
        ctx.eps, ctx.block = eps, block
        return y

    @staticmethod
    def backward(ctx, cotangent):
        """The gradients of x and weight."""
        x, weight = ctx.saved_tensors
        width = x.shape[-1]
        rows = x.numel() // width if width else 0
        x_gradient = torch.empty_like(x)
        parts = torch.zeros((min(rows, PROGRAMS), width), dtype=torch.float32, device=x.device)
        if rows > 0:
            with torch.cuda.device(x.device):
                rms_gradients[(len(parts),)](
                    cotangent.contiguous(), x, weight, x_gradient, parts, rows, width, ctx.eps, ctx.block,
                    num_warps=max(ctx.block // 512, 1),
                )  # fmt: skip
        return x_gradient, parts.sum(0).to(weight.dtype), None


def llama_rmsnorm(x, weight, eps):
    """Any shape and strides; float32, float16 and bfloat16. The result is dense."""
    return RMSNorm.apply(x, weight, eps)
