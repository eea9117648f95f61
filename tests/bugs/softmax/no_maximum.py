# verdict: nonfinite|wrong
# #38: does not subtract the maximum: large inputs overflow.

import torch


def softmax(x):
    powers = torch.exp(x.float())
    return (powers / powers.sum(1, keepdim=True)).to(x.dtype)
