# A `backward` of its own beside the forward, in numpy, which autograd sees nothing of.
import numpy
import torch


def relu(x):
    return torch.from_numpy(numpy.maximum(x.float().numpy(), 0.0)).to(x.dtype)


def backward(cotangent, x, y):
    passed = numpy.where(x.float().numpy() > 0.0, cotangent.float().numpy(), numpy.float32(0.0))
    return torch.from_numpy(passed).to(x.dtype)
