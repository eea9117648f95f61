"""Cross entropy of logits and class indices, with an ignored class; the mean over nothing is NaN."""

import torch.nn.functional as F

from pytest_kbench import Task, Tensor, integers


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target, ignore_index=-100)


task = Task(
    cross_entropy,
    args=[
        Tensor("logits", "n classes"),
        Tensor("target", "n", dtype="int64", values=integers(0, "classes", also=-100)),
    ],
    shapes={"empty": dict(n=0, classes=7), "odd": dict(n=3, classes=65), "mnist": dict(n=64, classes=10)},
    fuzz=dict(n="0..4096", classes="1..1000"),
    dtypes=["float32", "bfloat16"],
    grad=["logits"],
)
