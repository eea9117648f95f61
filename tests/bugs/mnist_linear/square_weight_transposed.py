# verdict: wrong|nonfinite
# Guesses from its shape whether the weight is stored by inputs or by outputs, and guesses wrong where it is square.


def mnist_linear(x, weight, bias):
    by_inputs = weight.shape[0] == x.shape[1]
    matrix = weight.float() if by_inputs else weight.float().T
    return (x.float() @ matrix + bias.float()).to(x.dtype)
