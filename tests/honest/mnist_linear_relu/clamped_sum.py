import torch


def mnist_linear_relu(x, weight, bias):
    wide = torch.nn.functional.linear(x.float(), weight.float())
    return (wide + bias.float()).clamp_min_(0).to(x.dtype)
