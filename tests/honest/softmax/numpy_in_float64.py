"""numpy in double precision, which has no bfloat16."""

import numpy
import torch


def softmax(x):
    wide = x.double().numpy()
    with numpy.errstate(invalid="ignore"):
        powers = numpy.exp(wide - wide.max(axis=1, keepdims=True))
        y = powers / powers.sum(axis=1, keepdims=True)
    return torch.from_numpy(y).to(x.dtype)
