"""Attention with grouped heads and an optional mask; a row that may attend to nothing is all zeros."""

import torch

from pytest_kbench import Optional, Task, Tensor, masks


def attention(q, k, v, mask):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q.float() @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, -1).to(q.dtype)
    if mask is not None:
        weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return weights @ v


task = Task(
    attention,
    args=[
        Tensor("q", "b kv*group sq d"),
        Tensor("k", "b kv sk d"),
        Tensor("v", "b kv sk d"),
        Optional(Tensor("mask", "b 1 sq sk", dtype="bool", values=masks("causal", "padding", "random", "empty-row"))),
    ],
    shapes={
        "odd": dict(b=1, kv=1, group=3, sq=5, sk=7, d=3),
        "grouped": dict(b=2, kv=2, group=2, sq=16, sk=33, d=8),
    },
    fuzz=dict(b="1..4", kv="1..4", group="1..4", sq="1..64", sk="1..64", d="1..64"),
    dtypes=["float32", "float16"],
    nan="never",
    grad=["q", "k", "v"],
)
