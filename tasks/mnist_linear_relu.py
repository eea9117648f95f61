"""A linear layer and its activation, the hidden one of an MNIST network: y = max(x weight^T + bias, 0)."""

import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, kaiming, normal, uniform_fan_in


def mnist_linear_relu(x, weight, bias):
    """The reference."""
    return F.relu(F.linear(x, weight, bias))


task = Task(
    mnist_linear_relu,
    args=[
        Tensor("x", "batch inputs"),
        Param("weight", "outputs inputs", {"kaiming": kaiming(), "spread": normal(-0.1, 0.5)}),
        Param("bias", "outputs", {"kaiming": uniform_fan_in("weight"), "spread": normal(1.0, 2.0)}),
    ],
    shapes={
        "odd": dict(batch=3, inputs=13, outputs=7),
        "tall": dict(batch=263, inputs=251, outputs=3),  # more elements than 16 bits count
        "wide": dict(batch=2, inputs=67, outputs=1031),
        "square": dict(batch=7, inputs=7, outputs=7),
        "larger-square": dict(batch=33, inputs=33, outputs=33),
        "empty": dict(batch=0, inputs=5, outputs=3),
        "laptop": dict(batch=64, inputs=800, outputs=128),
        "robust-kbench": dict(batch=64, inputs=1600, outputs=128),
        "robust-kbench-small": dict(batch=4, inputs=512, outputs=256),
    },
    fuzz=dict(batch="0..300", inputs="0..1600", outputs="0..1031"),
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-small"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x", "weight", "bias"],
)
