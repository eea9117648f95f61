"""A linear layer, the last one of an MNIST network: y = x weight^T + bias."""

import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, kaiming, normal, uniform_fan_in, xavier


def mnist_linear(x, weight, bias):
    """The reference."""
    return F.linear(x, weight, bias)


task = Task(
    mnist_linear,
    args=[
        Tensor("x", "batch features"),
        Param("weight", "classes features", {"kaiming": kaiming(), "xavier": xavier(), "spread": normal(0.2, 0.5)}),
        Param(
            "bias",
            "classes",
            {"kaiming": uniform_fan_in("weight"), "xavier": normal(0.0, 0.5), "spread": normal(1.0, 2.0)},
        ),
    ],
    shapes={
        "odd": dict(batch=3, features=13, classes=7),
        "tall": dict(batch=263, features=251, classes=3),  # more elements than 16 bits count
        "wide": dict(batch=2, features=1031, classes=67),
        "square": dict(batch=7, features=7, classes=7),
        "empty": dict(batch=0, features=5, classes=3),
        "laptop": dict(batch=128, features=512, classes=130),
        "robust-kbench": dict(batch=64, features=128, classes=10),
        "robust-kbench-wide": dict(batch=64, features=4096, classes=4096),
    },
    fuzz=dict(batch="0..300", features="0..4096", classes="0..4096"),
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-wide"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x", "weight", "bias"],
)
