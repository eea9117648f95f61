# silu written out, each step rounded to the working dtype, as eager code does.
import torch


def llama_ffw(x, gate, up, down):
    g = x @ gate.T
    return (g * torch.sigmoid(g) * (x @ up.T)) @ down.T
