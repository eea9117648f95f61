"""Changes its process's threads, seed, default dtype and working directory, which are its own."""

import os
import random

import numpy
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
numpy.random.seed(0)
random.seed(0)
os.makedirs("scratch", exist_ok=True)
os.chdir("scratch")


def relu(x):
    torch.set_num_threads(2)
    return torch.relu(x)
