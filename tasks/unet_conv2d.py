"""2D convolution: y[i, j] = bias + sum of weight[u, v] x[i*stride + u - padding, j*stride + v - padding].

The sum goes over the input channels and the kernel; outside the image x is zero.
"""

import torch.nn.functional as F

from pytest_kbench import Dim, Param, Task, Tensor, kaiming, normal, uniform_fan_in


def unet_conv2d(x, weight, bias, stride, padding):
    """The reference."""
    return F.conv2d(x, weight, bias, stride, padding)


task = Task(
    unet_conv2d,
    args=[
        Tensor("x", "n cin h w"),
        Param("weight", "cout cin k k", init={"kaiming": kaiming(), "spread": normal(0.0, 0.5)}),
        Param("bias", "cout", init={"kaiming": uniform_fan_in("weight"), "spread": normal(1.0, 2.0)}),
        Dim("stride"),
        Dim("padding"),
    ],
    shapes={
        "odd": dict(n=2, cin=3, cout=5, h=7, w=6, k=3, stride=1, padding=1),
        "strided": dict(n=1, cin=5, cout=7, h=9, w=12, k=3, stride=2, padding=1),  # the last column begins no window
        "unpadded": dict(n=3, cin=2, cout=3, h=5, w=11, k=2, stride=3, padding=0),
        "wide": dict(n=1, cin=67, cout=3, h=2, w=521, k=5, stride=1, padding=2),  # more elements than 16 bits count
        "tall": dict(n=1, cin=3, cout=2, h=263, w=3, k=3, stride=2, padding=2),
        "channels": dict(n=1, cin=67, cout=131, h=3, w=5, k=3, stride=1, padding=1),  # more weights than 16 bits count
        "pointwise": dict(n=2, cin=5, cout=3, h=4, w=5, k=1, stride=1, padding=0),
        "empty": dict(n=0, cin=3, cout=5, h=8, w=8, k=3, stride=1, padding=1),
        "laptop": dict(n=1, cin=16, cout=32, h=32, w=32, k=3, stride=1, padding=1),
        "robust-kbench": dict(n=8, cin=64, cout=64, h=32, w=32, k=3, stride=1, padding=1),
        "robust-kbench-strided": dict(n=32, cin=256, cout=64, h=32, w=32, k=3, stride=2, padding=1),
        "robust-kbench-unpadded": dict(n=16, cin=128, cout=64, h=32, w=32, k=3, stride=1, padding=0),
    },
    fuzz=dict(n="0..32", cin="1..256", cout="1..131", h="1..263", w="1..521", k="1..5", stride="1..3", padding="0..2"),
    where="h + 2*padding >= k and w + 2*padding >= k and k >= 1 and stride >= 1",
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-strided", "robust-kbench-unpadded"]),
    dtypes=["float32", "float16", "bfloat16"],
    nan="never",
)
