"""A linear recurrence along the first dimension: h = decay * h + x, from a given first state; every h is returned."""

import torch

from pytest_kbench import Param, Task, Tensor, uniform


def recurrence(x, first, decay):
    states, h = [], first
    for step in x:
        h = decay * h + step
        states.append(h)
    return torch.stack(states)


task = Task(
    recurrence,
    args=[
        Tensor("x", "steps width"),
        Tensor("first", "width"),
        Param("decay", "width", init={"slow": uniform(0.8, 0.99), "alternating": uniform(-0.9, -0.2)}),
    ],
    shapes={
        "one": dict(steps=1, width=5),
        "odd": dict(steps=7, width=33),
    },
    fuzz=dict(steps="1..64", width="0..1024"),
    nan="never",
)
