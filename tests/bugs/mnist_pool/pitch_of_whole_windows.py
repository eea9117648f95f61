# verdict: wrong
# Takes the rows of the image to be as long as the windows beside each other.

import torch.nn.functional as F


def mnist_pool(x, kernel):
    n, c, h, w = x.shape
    used = w // kernel * kernel
    image = x.reshape(n, c, h * w)[:, :, : h * used].reshape(n, c, h, used)
    return F.max_pool2d(image, kernel)
