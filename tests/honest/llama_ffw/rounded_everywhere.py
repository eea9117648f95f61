# silu written out, each step rounded to the working dtype; only the sigmoid, subnormal in float16 early on, is not.
import torch


def llama_ffw(x, gate, up, down):
    g = x @ gate.T
    silu = (g * torch.sigmoid(g.float())).to(x.dtype)
    return (silu * (x @ up.T)) @ down.T
