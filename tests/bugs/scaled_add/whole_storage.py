# verdict: out_of_bounds|wrong|nonfinite
# #20: adds to the storage as a whole, gaps and all.


def scaled_add(x, y, scale):
    storage = y.as_strided((y.untyped_storage().nbytes() // y.itemsize,), (1,), 0)
    storage[: x.numel()] += scale * x.reshape(-1)
