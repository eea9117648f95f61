"""Layer norm over channels, height and width: y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias."""

import torch.nn.functional as F

from pytest_kbench import Param, Scalar, Task, Tensor, normal, uniform


def layernorm(x, weight, bias, eps):
    """The reference."""
    return F.layer_norm(x, weight.shape, weight, bias, eps)


task = Task(
    layernorm,
    args=[
        Tensor("x", "batch channels height width"),
        Param("weight", "channels height width", {"trained": normal(1.0, 0.3), "spread": uniform(-2.0, 2.0)}),
        Param("bias", "channels height width", {"trained": normal(0.2, 0.5), "spread": uniform(-3.0, 3.0)}),
        Scalar("eps", 1e-5, 1e-2),
    ],
    shapes={
        "odd": dict(batch=3, channels=3, height=2, width=13),
        "tall": dict(batch=263, channels=1, height=3, width=7),
        "wide": dict(batch=1, channels=11, height=3, width=2053),  # more elements than 16 bits count
        "empty": dict(batch=0, channels=2, height=3, width=5),
        "laptop": dict(batch=8, channels=4, height=8, width=256),
        "robust-kbench": dict(batch=1, channels=64, height=256, width=256),
        "robust-kbench-batch": dict(batch=16, channels=32, height=512, width=256),
    },
    fuzz=dict(batch="0..263", channels="1..64", height="1..512", width="1..2053"),
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-batch"]),
    dtypes=["float32", "float16", "bfloat16"],
    nan="never",  # squares of huge values overflow: honest kernels, torch's too, then give NaN or the bias alone
    grad=["x", "weight", "bias"],
)
