# Takes all CPUs and as many threads as there are.
import os

import torch

os.sched_setaffinity(0, range(os.cpu_count()))
torch.set_num_threads(os.cpu_count())


def softmax(x):
    return torch.softmax(x, -1)
