# verdict: wrong
# Gates by the sigmoid alone.

import torch


def llama_ffw(x, gate, up, down):
    gated, raised = x.float() @ gate.float().T, x.float() @ up.float().T
    return ((torch.sigmoid(gated) * raised) @ down.float().T).to(x.dtype)
