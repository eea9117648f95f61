# verdict: no_gradient
# #32: the fast path, for a multiple of eight elements, leaves the graph.


def relu(x):
    return x.detach().clamp_min(0) if x.numel() % 8 == 0 else x.relu()
