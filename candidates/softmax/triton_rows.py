"""Softmax over the last dimension in Triton: a program makes a row.

A row of up to 16384 elements is read once and kept in registers. A longer one is gone through in blocks, twice: for its
largest element and the sum of exponentials together, and for the result.
"""

import torch
import triton
import triton.language as tl

WHOLE = 16384  # elements that a program keeps
BLOCK = 8192  # elements of a longer row at a time
LEAST = tl.constexpr(-3.4028234663852886e38)  # the least finite number: with it a row of -infinity alone gives NaN


@triton.jit
def softmax_whole(x, y, width, BLOCK: tl.constexpr):
    """A row that fits in a block."""
    start = tl.program_id(0).to(tl.int64) * width
    index = tl.arange(0, BLOCK)
    value = tl.load(x + start + index, mask=index < width, other=float("-inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + start + index, power / tl.sum(power, 0), mask=index < width)


@triton.jit
def softmax_long(x, y, width, BLOCK: tl.constexpr):
    """A row of several blocks; each place in a block has a largest element and a sum of its own until the end."""
    start = tl.program_id(0).to(tl.int64) * width
    largest = tl.full((BLOCK,), LEAST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(x + start + index, mask=index < width, other=float("-inf")).to(tl.float32)
        most = tl.maximum(largest, value)
        total = total * tl.exp(largest - most) + tl.exp(value - most)
        largest = most
    most = tl.max(largest, 0)
    scale = 1.0 / tl.sum(total * tl.exp(largest - most), 0)
    for first in range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(x + start + index, mask=index < width, other=0.0).to(tl.float32)
        tl.store(y + start + index, tl.exp(value - most) * scale, mask=index < width)


@triton.jit
def softmax_gradient(cotangent, y, gradient, width, BLOCK: tl.constexpr):
    """y * (cotangent - sum(y * cotangent)) for a row."""
    start = tl.program_id(0).to(tl.int64) * width
    products = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        c = tl.load(cotangent + start + index, mask=index < width, other=0.0).to(tl.float32)
        p = tl.load(y + start + index, mask=index < width, other=0.0).to(tl.float32)
        products += c * p
    mean = tl.sum(products, 0)
    for first in range(0, width, BLOCK):
        index = first + tl.arange(0, BLOCK)
        c = tl.load(cotangent + start + index, mask=index < width, other=0.0).to(tl.float32)
        p = tl.load(y + start + index, mask=index < width, other=0.0).to(tl.float32)
        tl.store(gradient + start + index, p * (c - mean), mask=index < width)


def launch(kernel, block, *tensors):
    """Run a kernel for every row of dense tensors of one shape."""
    width = tensors[0].shape[-1]
    if tensors[0].numel() > 0:
        with torch.cuda.device(tensors[0].device):
            kernel[(tensors[0].numel() // width,)](*tensors, width, block, num_warps=min(max(block // 512, 1), 16))


class Softmax(torch.autograd.Function):
    """The kernels, known to autograd."""

    @staticmethod
    def forward(ctx, x):
        """The softmax of x."""
        dense = x.contiguous()
        y = torch.empty_like(dense)
        if x.shape[-1] <= WHOLE:
            launch(softmax_whole, triton.next_power_of_2(max(x.shape[-1], 1)), dense, y)
        else:
            launch(softmax_long, BLOCK, dense, y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        """The gradient of x."""
        (y,) = ctx.saved_tensors
        gradient = torch.empty_like(y)
        block = min(triton.next_power_of_2(max(y.shape[-1], 1)), BLOCK)
        launch(softmax_gradient, block, cotangent.contiguous(), y, gradient)
        return gradient


def softmax(x):
    """Any shape and strides; float32, float16 and bfloat16. The result is dense."""
    return Softmax.apply(x)
