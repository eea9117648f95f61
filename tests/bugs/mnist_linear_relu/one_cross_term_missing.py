# verdict: wrong|precision
# Splits float32 operands in two of bfloat16 each, and leaves one of the three products out that float32 needs.


def mnist_linear_relu(x, weight, bias):
    (high, low), (rows, _) = split(x.float()), split(weight.float())
    return (high @ rows.T + low @ rows.T + bias.float()).relu().to(x.dtype)


def split(values):
    high = values.bfloat16().float()
    return high, (values - high).bfloat16().float()
