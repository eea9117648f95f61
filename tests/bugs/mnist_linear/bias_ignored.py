# verdict: wrong
# Leaves the bias out.


def mnist_linear(x, weight, bias):
    return (x.float() @ weight.float().T).to(x.dtype)
