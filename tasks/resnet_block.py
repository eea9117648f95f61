"""A residual block at inference: y = relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut(x)), with 3x3 convolutions.

The shortcut is x itself; where stride or channels change it is a 1x1 convolution with a norm of its own.
"""

import torch.nn.functional as F

from pytest_kbench import Dim, Param, Scalar, Task, Tensor, kaiming, normal, uniform, xavier

DOWNSAMPLES = "stride != 1 or cin != planes"
WEIGHTS = {"trained": kaiming(), "spread": xavier()}
BIAS = {"trained": normal(0.2, 0.5), "spread": uniform(-2.0, 2.0)}
# The last ReLU must leave something of every channel: where all is zero, nothing shows how far honest kernels differ.
LAST_BIAS = {"trained": normal(2.0, 0.3), "spread": uniform(2.0, 4.0)}


def norm(prefix, bias, present=None):
    """The parameters of a batch norm, far from neutral, with variances above one.

    Smaller ones make inputs of 1e4 overflow between the operations of a float16 block, and which results show that
    depends on where a kernel rounds: those that keep more in float32 would be judged by the luck of those that do not.
    """
    init = {
        "mean": {"trained": normal(0.5, 1.0), "spread": uniform(-3.0, 3.0)},
        "var": {"trained": uniform(2.0, 6.0), "spread": uniform(4.0, 25.0)},
        "weight": {"trained": normal(1.0, 0.3), "spread": uniform(-2.0, 2.0)},
        "bias": bias,
    }
    return [Param(f"{prefix}_{part}", "planes", states, present=present) for part, states in init.items()]


def resnet_block(
    x,
    w1, bn1_mean, bn1_var, bn1_weight, bn1_bias,
    w2, bn2_mean, bn2_var, bn2_weight, bn2_bias,
    wd, bnd_mean, bnd_var, bnd_weight, bnd_bias,
    stride, eps,
):  # fmt: skip
    """The reference."""
    y = F.conv2d(x, w1, stride=stride, padding=1)
    y = F.relu(F.batch_norm(y, bn1_mean, bn1_var, bn1_weight, bn1_bias, eps=eps))
    y = F.conv2d(y, w2, padding=1)
    y = F.batch_norm(y, bn2_mean, bn2_var, bn2_weight, bn2_bias, eps=eps)
    if wd is not None:
        x = F.batch_norm(F.conv2d(x, wd, stride=stride), bnd_mean, bnd_var, bnd_weight, bnd_bias, eps=eps)
    return F.relu(y + x)


task = Task(
    resnet_block,
    args=[
        Tensor("x", "n cin h w"),
        Param("w1", "planes cin 3 3", init=WEIGHTS),
        norm("bn1", BIAS),
        Param("w2", "planes planes 3 3", init=WEIGHTS),
        norm("bn2", LAST_BIAS),
        Param("wd", "planes cin 1 1", init=WEIGHTS, present=DOWNSAMPLES),
        norm("bnd", LAST_BIAS, present=DOWNSAMPLES),
        Dim("stride"),
        Scalar("eps", 1e-3, 1e-5),
    ],
    shapes={
        "odd": dict(n=2, cin=3, planes=3, h=7, w=5, stride=1),
        "odd-down": dict(n=1, cin=3, planes=5, h=8, w=7, stride=2),
        "same-planes": dict(n=1, cin=7, planes=7, h=5, w=6, stride=2),
        "projected": dict(n=1, cin=13, planes=2, h=3, w=67, stride=1),
        "tall": dict(n=1, cin=252, planes=11, h=261, w=1, stride=1),  # more elements than 16 bits count
        "channels": dict(n=1, cin=86, planes=86, h=3, w=2, stride=1),
        "empty": dict(n=0, cin=3, planes=5, h=6, w=6, stride=2),
        "laptop": dict(n=1, cin=16, planes=16, h=28, w=28, stride=1),
        "laptop-down": dict(n=1, cin=16, planes=32, h=28, w=28, stride=2),
        "robust-kbench": dict(n=32, cin=64, planes=64, h=224, w=224, stride=1),
        "robust-kbench-down": dict(n=32, cin=64, planes=128, h=224, w=224, stride=2),
        "robust-kbench-wide": dict(n=16, cin=256, planes=512, h=224, w=224, stride=2),
    },
    fuzz=dict(n="0..32", cin="1..256", planes="1..512", h="1..261", w="1..224", stride="1..3"),
    where="stride >= 1",
    time=dict(
        cpu=["laptop", "laptop-down"],
        cuda=["laptop", "laptop-down", "robust-kbench", "robust-kbench-down", "robust-kbench-wide"],
    ),
    dtypes=["float32", "float16", "bfloat16"],
    nan="never",
    # A block that rounds to a half type between its convolutions, but not where the reference does, may err where the
    # reference happens not to: most of what ReLU leaves of a channel is zero, which says nothing of errors.
    tolerance=dict(elementwise=16.0),
    survivors={
        "offsets into wd in 16 bits": "256 channels into 257 planes are too much work for a CPU, case after case",
        **{
            f"strides of {prefix}_{part} read as dense": "parameters are strided in fuzzing alone; there are fifteen"
            for prefix in ("bn1", "bn2", "bnd")
            for part in ("mean", "var", "weight", "bias")
        },
    },
    flops="2 * n * planes * 9 * (cin + planes) * h * w",
)
