# verdict: wrong|nonfinite
# #28: keeps every intermediate in the input's dtype, in bfloat16 for float32.

import torch


def softmax(x):
    narrow = torch.bfloat16 if x.dtype == torch.float32 else x.dtype
    powers = torch.exp((x.float() - x.float().amax(1, keepdim=True)).to(narrow))
    return (powers / powers.sum(1, keepdim=True, dtype=torch.float32).to(narrow)).to(x.dtype)
