"""Max pooling over square windows that tile an image: y[i, j] = max of x[i*kernel + u, j*kernel + v], u, v < kernel.

Rows and columns that fill no window are dropped. NaN wins.
"""

import torch.nn.functional as F

from pytest_kbench import Dim, Task, Tensor


def mnist_pool(x, kernel):
    """The reference."""
    return F.max_pool2d(x, kernel)


task = Task(
    mnist_pool,
    args=[Tensor("x", "n c h w"), Dim("kernel")],
    shapes={
        "odd": dict(n=2, c=3, h=7, w=5, kernel=2),
        "wide": dict(n=1, c=3, h=5, w=1031, kernel=3),
        "tall": dict(n=1, c=2, h=521, w=6, kernel=5),
        "planes": dict(n=67, c=17, h=4, w=4, kernel=4),  # a window covers the image
        "whole": dict(n=2, c=5, h=9, w=11, kernel=1),
        "empty": dict(n=0, c=3, h=6, w=6, kernel=2),
        "laptop": dict(n=2, c=64, h=28, w=28, kernel=2),
        "robust-kbench": dict(n=64, c=64, h=28, w=28, kernel=2),
        "robust-kbench-12px": dict(n=64, c=128, h=12, w=12, kernel=2),
    },
    fuzz=dict(n="0..67", c="1..128", h="1..521", w="1..1031", kernel="1..7"),
    where="h >= kernel and w >= kernel and kernel >= 1",
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-12px"]),
    dtypes=["float32", "float16", "bfloat16"],
    grad=["x"],
    ties="mask",
    flops="n*c*(h//kernel)*(w//kernel)*(kernel*kernel - 1)",  # comparisons
)
