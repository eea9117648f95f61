# verdict: wrong|nonfinite
# Powers of the decay by its logarithm, all steps at once: the sign of a negative decay is lost.

import torch


def recurrence(x, first, decay):
    logarithm = decay.double().abs().log()
    ages = torch.arange(len(x)).unsqueeze(1) - torch.arange(len(x))
    powers = torch.exp(ages.clamp(min=0).unsqueeze(2) * logarithm).masked_fill((ages < 0).unsqueeze(2), 0.0)
    start = torch.exp(torch.arange(1, len(x) + 1).unsqueeze(1) * logarithm) * first
    return (torch.einsum("tsw,sw->tw", powers, x.double()) + start).to(x.dtype)
