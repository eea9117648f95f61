"""Llama RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

import torch.nn.functional as F

from pytest_kbench import Param, Scalar, Task, Tensor, normal, uniform


def llama_rmsnorm(x, weight, eps):
    """The reference."""
    return F.rms_norm(x, weight.shape, weight, eps)


task = Task(
    llama_rmsnorm,
    args=[
        Tensor("x", "tokens hidden"),
        Param("weight", "hidden", init={"trained": normal(1.0, 0.1), "spread": uniform(-2.0, 2.0)}),
        Scalar("eps", 1e-6, 1e-3),
    ],
    shapes={
        "odd": dict(tokens=3, hidden=65),
        "wide": dict(tokens=2, hidden=16411),
        "tall": dict(tokens=1031, hidden=7),
        "empty": dict(tokens=0, hidden=65),
        "laptop": dict(tokens=256, hidden=2048),
        "llama-7b": dict(tokens=16384, hidden=4096),  # robust-kbench: batch 16, 1024 tokens
    },
    fuzz=dict(tokens="0..16384", hidden="1..16411"),
    time=dict(cpu=["laptop"], cuda=["laptop", "llama-7b"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x", "weight"],
)
