# verdict: wrong
# Leaves the bias out.


def mnist_linear_relu(x, weight, bias):
    return (x.float() @ weight.float().T).clamp_min(0).to(x.dtype)
