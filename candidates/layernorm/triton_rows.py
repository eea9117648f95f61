"""Layer norm over the last dimensions, those of weight, in Triton: (x - mean) / sqrt(var + eps) * weight + bias.

Samples are few and long, so each is cut in pieces. One kernel finds the mean of every piece and the sum of the squares
of the distances from it; the other merges those of a sample, all of its programs the same way, and makes the result.
Programs for one piece of all samples are neighbours, so that weight and bias come once from memory.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4096  # elements at a time
MOST = 512  # pieces of a sample


@triton.jit
def moments_of_pieces(x, means, squares, width, blocks, BLOCK: tl.constexpr):
    """Of one piece, `blocks` blocks long; sums are taken of what is left of the piece's first element."""
    sample, piece = tl.program_id(0).to(tl.int64), tl.program_id(1)
    begin = piece.to(tl.int64) * blocks * BLOCK
    end = tl.minimum(begin + blocks * BLOCK, width)
    level = tl.load(x + sample * width + begin).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(begin, end, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(x + sample * width + index, mask=index < end, other=0.0).to(tl.float32)
        total += tl.where(index < end, value - level, 0.0)
    mean = level + tl.sum(total, 0) / (end - begin)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(begin, end, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(x + sample * width + index, mask=index < end, other=0.0).to(tl.float32)
        distance = tl.where(index < end, value - mean, 0.0)
        total += distance * distance
    place = sample * tl.num_programs(1) + piece
    tl.store(means + place, mean)
    tl.store(squares + place, tl.sum(total, 0))


@triton.jit
def norm_pieces(x, weight, bias, means, squares, y, width, blocks, eps, BLOCK: tl.constexpr, MOST: tl.constexpr):
    """One piece of the result."""
    sample, piece, pieces = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    each = tl.arange(0, MOST)
    counts = tl.minimum(width - each.to(tl.int64) * blocks * BLOCK, blocks * BLOCK).to(tl.float32)
    counts = tl.where(each < pieces, counts, 0.0)
    centres = tl.load(means + sample * pieces + each, mask=each < pieces, other=0.0)
    level = tl.load(means + sample * pieces)
    mean = level + tl.sum(tl.where(each < pieces, (centres - level) * counts, 0.0), 0) / width
    apart = centres - mean
    within = tl.load(squares + sample * pieces + each, mask=each < pieces, other=0.0)
    scale = 1.0 / tl.sqrt_rn(tl.sum(within + apart * apart * counts, 0) / width + eps)

    begin = piece.to(tl.int64) * blocks * BLOCK
    end = tl.minimum(begin + blocks * BLOCK, width)
    for first in range(begin, end, BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(x + sample * width + index, mask=index < end, other=0.0).to(tl.float32)
        w = tl.load(weight + index, mask=index < end, other=0.0).to(tl.float32)
        b = tl.load(bias + index, mask=index < end, other=0.0).to(tl.float32)
        tl.store(y + sample * width + index, (value - mean) * scale * w + b, mask=index < end)


def layernorm(x, weight, bias, eps):
    """Any strides; float32, float16 and bfloat16. The result is dense."""
    dense, width = x.contiguous(), weight.numel()
    y = torch.empty_like(dense)
    if x.numel() == 0:
        return y
    blocks = triton.cdiv(triton.cdiv(width, BLOCK), MOST)
    grid = x.numel() // width, triton.cdiv(width, blocks * BLOCK)
    means, squares = torch.empty((2, *grid), dtype=torch.float32, device=x.device)
    with torch.cuda.device(x.device):
        moments_of_pieces[grid](dense, means, squares, width, blocks, BLOCK, num_warps=8)
        parameters = weight.contiguous(), bias.contiguous()
        norm_pieces[grid](dense, *parameters, means, squares, y, width, blocks, eps, BLOCK, MOST, num_warps=8)
    return y
