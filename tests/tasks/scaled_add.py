"""An operator in place: y += scale * x. It returns nothing."""

from pytest_kbench import Scalar, Task, Tensor


def scaled_add(x, y, scale):
    y.add_(x, alpha=scale)


task = Task(
    scaled_add,
    args=[Tensor("x", "rows columns"), Tensor("y", "rows columns"), Scalar("scale", 1.0, -0.5)],
    shapes={
        "odd": dict(rows=3, columns=65),
        "tall": dict(rows=301, columns=7),
    },
    fuzz=dict(rows="0..2048", columns="0..4096"),
    dtypes=["float32", "float16"],
    in_place=["y"],
)
