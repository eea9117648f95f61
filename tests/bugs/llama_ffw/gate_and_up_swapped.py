# verdict: wrong
# The gate goes straight, the other product through SiLU.

import torch


def llama_ffw(x, gate, up, down):
    gated, raised = x.float() @ gate.float().T, x.float() @ up.float().T
    return ((gated * torch.nn.functional.silu(raised)) @ down.float().T).to(x.dtype)
