# verdict: wrong|precision|nonfinite
# One path for both half types, which holds its input in bfloat16: float16 has three bits more.

import torch


def softmax(x):
    wide = x.float() if x.dtype == torch.float32 else x.bfloat16().float()
    return torch.softmax(wide, 1).to(x.dtype)
