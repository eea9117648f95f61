# verdict: wrong
# Rounds both operands to bfloat16, as tensor cores like them, and sums in float32.


def mnist_linear(x, weight, bias):
    rounded, weights = x.bfloat16().float(), weight.bfloat16().float()
    return (rounded @ weights.T + bias.float()).to(x.dtype)
