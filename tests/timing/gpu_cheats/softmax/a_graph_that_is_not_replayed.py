# verdict: wrong
# T6: every second replay of a graph does nothing: outputs are those of the turn before.
import torch

honest = torch.cuda.CUDAGraph.replay
count = [0]


def replay(self):
    count[0] += 1
    if count[0] < 40 or count[0] % 2:
        honest(self)


torch.cuda.CUDAGraph.replay = replay


def softmax(x):
    return torch.softmax(x, -1)
