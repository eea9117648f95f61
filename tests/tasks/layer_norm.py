"""Layer norm over the last dimension, with or without its affine part."""

import torch.nn.functional as F

from pytest_kbench import Optional, Param, Scalar, Task, Tensor, normal, uniform


def layer_norm(x, weight, bias, eps):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


task = Task(
    layer_norm,
    args=[
        Tensor("x", "rows columns"),
        Optional(Param("weight", "columns", init={"trained": normal(1.0, 0.2), "spread": uniform(-2.0, 2.0)})),
        Optional(Param("bias", "columns", init={"trained": normal(0.3, 0.2), "spread": uniform(-3.0, 3.0)})),
        Scalar("eps", 1e-5, 1e-2),
    ],
    shapes={
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
        "wide": dict(rows=2, columns=4099),
    },
    fuzz=dict(rows="0..2048", columns="1..8192"),
    dtypes=["float32", "float16"],
    nan="never",  # what an overflow of the squares leaves behind is up to the form
    grad=["x", "weight", "bias"],
)
