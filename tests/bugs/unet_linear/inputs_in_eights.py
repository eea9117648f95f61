# verdict: wrong|nonfinite
# Sums vectors of eight: the last one to seven inputs do not count.


def unet_linear(x, weight, bias):
    whole = x.shape[-1] // 8 * 8
    return (x[..., :whole].float() @ weight[:, :whole].float().T + bias.float()).to(x.dtype)
