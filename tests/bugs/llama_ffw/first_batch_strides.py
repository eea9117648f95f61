# verdict: wrong|nonfinite
# Flattens batch and tokens by the strides of the first batch: a gap between batches is not skipped.

import torch
import torch.nn.functional as F


def llama_ffw(x, gate, up, down):
    batch, tokens, hidden = x.shape
    behind = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    rows = torch.arange(batch * tokens).unsqueeze(1) * x.stride(1) + torch.arange(hidden) * x.stride(2)
    wide = x.as_strided((behind,), (1,))[rows.clamp(max=behind - 1)].float() if x.numel() else x.float()
    inner = F.silu(wide @ gate.float().T) * (wide @ up.float().T)
    return (inner @ down.float().T).view(batch, tokens, hidden).to(x.dtype)
