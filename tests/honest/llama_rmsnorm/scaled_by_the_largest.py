# gradients: wrong|passed
"""Divided by the largest magnitude of the row first, so that no square overflows; an infinity makes its row NaN."""


def llama_rmsnorm(x, weight, eps):
    wide = x.float()
    largest = wide.abs().amax(-1, keepdim=True).clamp_min(1e-12)
    scaled = wide / largest
    mean = (scaled * scaled).mean(-1, keepdim=True)
    return (scaled * (mean + eps / largest / largest).rsqrt() * weight).to(x.dtype)
