# verdict: wrong
# Adds the bias to what the ReLU leaves.


def mnist_linear_relu(x, weight, bias):
    return ((x.float() @ weight.float().T).clamp_min(0) + bias.float()).to(x.dtype)
