# verdict: wrong|nonfinite
# Forgets the square root.


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide / (wide.square().mean(1, keepdim=True) + eps) * weight.float()).to(x.dtype)
