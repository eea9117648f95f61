# verdict: wrong|nonfinite
# Normalises by the mean of |x|.


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    return (wide / (wide.abs().mean(1, keepdim=True) + eps) * weight.float()).to(x.dtype)
