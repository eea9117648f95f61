"""Convolution, ReLU, 2x2 max pool: y[i, j] = largest of max(conv(x)[2i + u, 2j + v] + bias, 0), u and v of 0 and 1.

A last row or column that fills no window is dropped.
"""

import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, kaiming, normal, uniform_fan_in


def mnist_conv_relu_pool(x, weight, bias):
    """The reference."""
    return F.max_pool2d(F.relu(F.conv2d(x, weight, bias)), 2)


task = Task(
    mnist_conv_relu_pool,
    args=[
        Tensor("x", "n cin h w"),
        Param("weight", "cout cin k k", init={"kaiming": kaiming(), "spread": normal(0.0, 0.5)}),
        Param("bias", "cout", init={"kaiming": uniform_fan_in("weight"), "spread": normal(1.0, 2.0)}),
    ],
    shapes={
        "odd": dict(n=2, cin=1, cout=3, h=7, w=6, k=3),
        "wide": dict(n=1, cin=23, cout=7, h=6, w=521, k=5),  # more elements than 16 bits count
        "tall": dict(n=1, cin=3, cout=2, h=263, w=5, k=2),
        "channels": dict(n=1, cin=37, cout=67, h=8, w=5, k=3),
        "pointwise": dict(n=5, cin=5, cout=1, h=3, w=9, k=1),
        "empty": dict(n=0, cin=1, cout=5, h=8, w=8, k=3),
        "laptop": dict(n=8, cin=1, cout=32, h=28, w=28, k=3),
        "robust-kbench": dict(n=64, cin=1, cout=32, h=28, w=28, k=3),
        "robust-kbench-13px": dict(n=64, cin=32, cout=64, h=13, w=13, k=3),
    },
    fuzz=dict(n="0..64", cin="1..37", cout="1..67", h="2..263", w="2..521", k="1..5"),
    where="h - k + 1 >= 2 and w - k + 1 >= 2 and k >= 1",
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-13px"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x", "weight", "bias"],
    nan="never",
    ties="mask",
    flops="8*n*cout*cin*k*k*((h - k + 1)//2)*((w - k + 1)//2)",  # of those outputs that the pool sees
)
