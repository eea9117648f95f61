"""Cross entropy of logits and class indices: the mean over rows of log(sum(exp(logits))) - logits[target]."""

import torch.nn.functional as F

from pytest_kbench import Task, Tensor, integers


def mnist_cross_entropy(logits, targets):
    """The reference. The mean over no rows is NaN."""
    return F.cross_entropy(logits, targets)


task = Task(
    mnist_cross_entropy,
    args=[
        Tensor("logits", "batch classes"),
        Tensor("targets", "batch", dtype="int64", values=integers(0, "classes")),
    ],
    shapes={
        "odd": dict(batch=3, classes=13),
        "tall": dict(batch=1031, classes=7),
        "wide": dict(batch=5, classes=16411),  # more elements than 16 bits count
        "empty": dict(batch=0, classes=7),
        "laptop": dict(batch=512, classes=100),
        "robust-kbench": dict(batch=64, classes=10),
        "robust-kbench-large": dict(batch=4096, classes=100),
    },
    fuzz=dict(batch="0..4096", classes="1..16411"),
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-large"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["logits"],
)
