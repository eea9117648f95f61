# verdict: wrong|nonfinite
# Forgets the stride between images: all of them get the first one's tokens.


def unet_linear(x, weight, bias):
    y = x[:1].float() @ weight.float().T + bias.float()
    return y.expand(x.shape[0], -1, -1).to(x.dtype).contiguous()
