# verdict: wrong|nonfinite
# Adds eps after the square root.


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide / (wide.square().mean(1, keepdim=True).sqrt() + eps) * weight.float()).to(x.dtype)
