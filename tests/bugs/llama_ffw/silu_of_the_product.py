# verdict: wrong
# Takes SiLU of the product of both, not of the gate.

import torch


def llama_ffw(x, gate, up, down):
    gated, raised = x.float() @ gate.float().T, x.float() @ up.float().T
    return (torch.nn.functional.silu(gated * raised) @ down.float().T).to(x.dtype)
