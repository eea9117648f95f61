# verdict: wrong
# Does not multiply by the second product.

import torch


def llama_ffw(x, gate, up, down):
    gated = x.float() @ gate.float().T
    return (torch.nn.functional.silu(gated) @ down.float().T).to(x.dtype)
