"""Matrix product."""

from pytest_kbench import Task, Tensor


def matmul(a, b):
    return a @ b


task = Task(
    matmul,
    args=[Tensor("a", "m k"), Tensor("b", "k n")],
    shapes={
        "nothing-to-add": dict(m=3, k=0, n=4),
        "odd": dict(m=3, k=71, n=13),
        "blocks": dict(m=64, k=128, n=32),
        "tall": dict(m=263, k=33, n=5),
    },
    fuzz=dict(m="0..512", k="0..512", n="0..512"),
    dtypes=["float32", "float16"],
    nan="never",
    flops="2*m*k*n",
    grad=["a", "b"],
)
