# verdict: wrong|precision
# Only the last of three products has its float32 operands cut to ten bits of mantissa.

import torch
import torch.nn.functional as F


def llama_ffw(x, gate, up, down):
    wide = x.float()
    inner = F.silu(wide @ gate.float().T) * (wide @ up.float().T)
    return (cut(inner) @ cut(down.float()).T).to(x.dtype)


def cut(values):
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
