"""The feed-forward block of Llama, gated by SiLU: y = (silu(x gate^T) * (x up^T)) down^T."""

import torch.nn.functional as F

from pytest_kbench import Param, Task, Tensor, kaiming, normal, uniform, xavier


def llama_ffw(x, gate, up, down):
    """The reference."""
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


task = Task(
    llama_ffw,
    args=[
        Tensor("x", "batch tokens hidden"),
        Param("gate", "inner hidden", {"trained": xavier(), "spread": normal(0.1, 0.3)}),
        Param("up", "inner hidden", {"trained": kaiming(), "spread": uniform(-0.3, 0.5)}),
        Param("down", "hidden inner", {"trained": xavier(), "spread": normal(-0.05, 0.2)}),
    ],
    shapes={
        "odd": dict(batch=1, tokens=3, hidden=13, inner=19),
        "tall": dict(batch=2, tokens=263, hidden=127, inner=7),  # more elements than 16 bits count
        "wide": dict(batch=1, tokens=2, hidden=67, inner=517),
        "square": dict(batch=1, tokens=3, hidden=21, inner=21),
        "empty": dict(batch=2, tokens=0, hidden=5, inner=7),
        "laptop": dict(batch=2, tokens=32, hidden=160, inner=448),
        "robust-kbench": dict(batch=2, tokens=128, hidden=4096, inner=14336),
        "robust-kbench-long": dict(batch=4, tokens=1024, hidden=2048, inner=7168),
    },
    fuzz=dict(batch="0..4", tokens="0..1024", hidden="0..4096", inner="0..14336"),
    time=dict(cpu=["laptop"], cuda=["laptop", "robust-kbench", "robust-kbench-long"]),
    dtypes=["float32", "float16", "bfloat16"],
    nan="never",
)
