# As Hugging Face's LlamaRMSNorm: normalised in float32, rounded, then times the weight in the working dtype.
import torch


def llama_rmsnorm(x, weight, eps):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)
