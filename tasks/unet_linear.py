"""A linear layer of a U-Net, over the channels of every token: y = x weight^T + bias."""

import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, kaiming, normal, uniform_fan_in, xavier


def unet_linear(x, weight, bias):
    """The reference."""
    return F.linear(x, weight, bias)


task = Task(
    unet_linear,
    args=[
        Tensor("x", "batch tokens inputs"),
        Param("weight", "outputs inputs", {"kaiming": kaiming(), "xavier": xavier(), "spread": normal(0.2, 0.5)}),
        Param(
            "bias",
            "outputs",
            {"kaiming": uniform_fan_in("weight"), "xavier": normal(0.0, 0.5), "spread": normal(1.0, 2.0)},
        ),
    ],
    shapes={
        "odd": dict(batch=2, tokens=5, inputs=13, outputs=7),
        "tall": dict(batch=3, tokens=263, inputs=85, outputs=3),  # more elements than 16 bits count
        "wide": dict(batch=1, tokens=3, inputs=129, outputs=517),
        "square": dict(batch=1, tokens=9, inputs=9, outputs=9),
        "empty": dict(batch=2, tokens=0, inputs=5, outputs=3),
        "laptop": dict(batch=4, tokens=64, inputs=256, outputs=128),
        "robust-kbench": dict(batch=64, tokens=256, inputs=128, outputs=128),
        "robust-kbench-narrow": dict(batch=32, tokens=256, inputs=64, outputs=64),
    },
    fuzz=dict(batch="0..64", tokens="0..263", inputs="0..260", outputs="0..517"),
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-narrow"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x", "weight", "bias"],
)
