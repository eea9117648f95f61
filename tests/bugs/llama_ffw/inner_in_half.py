# verdict: wrong|nonfinite
# Keeps what lies between the products in float16.

import torch


def llama_ffw(x, gate, up, down):
    gated, raised = (x.float() @ gate.float().T).half(), (x.float() @ up.float().T).half()
    inner = torch.nn.functional.silu(gated) * raised
    return (inner.float() @ down.float().T).to(x.dtype)
