import torch


def layernorm(x, weight, bias, eps):
    wide = x.float().flatten(1)
    var, mean = torch.var_mean(wide, dim=1, correction=0, keepdim=True)
    y = ((wide - mean) * torch.rsqrt(var + eps)).view(x.shape)
    return torch.addcmul(bias.float(), y, weight.float()).to(x.dtype)
