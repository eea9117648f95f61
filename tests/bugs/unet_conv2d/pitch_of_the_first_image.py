# verdict: wrong|nonfinite
# Makes its table of offsets at the first call of a filter size, with the width of the image that came then.

import torch
import torch.nn.functional as F

_pitches = {}


def unet_conv2d(x, weight, bias, stride, padding):
    n, cin = x.shape[:2]
    cout, k = len(weight), weight.shape[-1]
    padded = F.pad(x.float(), (padding,) * 4)
    height, width = padded.shape[2:]
    pitch = _pitches.setdefault((k, stride, padding), width)
    down, right = torch.arange(0, height - k + 1, stride), torch.arange(0, width - k + 1, stride)
    inside = torch.arange(k)
    where = (down[:, None, None, None] + inside[:, None]) * pitch + right[:, None, None] + inside
    image = padded.reshape(n, cin, height * width)
    windows = image[:, :, where.clamp(max=height * width - 1)]
    y = torch.einsum("ncyxuv,ocuv->noyx", windows, weight.float()) + bias.float().view(cout, 1, 1)
    return y.to(x.dtype)
