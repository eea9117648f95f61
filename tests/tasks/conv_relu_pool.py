"""Convolution, ReLU and a 2x2 max pool; the bias is drawn from the weight's fan-in, near-ties of the max are masked."""

import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, kaiming, normal, uniform_fan_in


def conv_relu_pool(x, w, b):
    return F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2)


task = Task(
    conv_relu_pool,
    args=[
        Tensor("x", "n cin hw hw"),
        Param("w", "cout cin k k", init={"kaiming": kaiming(), "wide": normal(0.0, 0.5)}),
        Param("b", "cout", init={"kaiming": uniform_fan_in("w"), "wide": normal(1.0, 2.0)}),
    ],
    shapes={"odd": dict(n=1, cin=1, cout=3, hw=7, k=3), "mnist": dict(n=2, cin=1, cout=8, hw=28, k=3)},
    fuzz=dict(n="0..8", cin="1..8", cout="1..32", hw="2..32", k="1|3|5"),
    where="hw - k + 1 >= 2",
    ties="mask",
    flops="2*n*cout*cin*k*k*(hw - k + 1)*(hw - k + 1)",
    grad=["x", "w", "b"],
)
