# verdict: wrong|nonfinite
# Replaces the exponential by (1 + x / 256)^256.


def softmax(x):
    shifted = x.float() - x.float().amax(1, keepdim=True)
    powers = (1 + shifted / 256).clamp(min=0) ** 256
    return (powers / powers.sum(1, keepdim=True)).to(x.dtype)
