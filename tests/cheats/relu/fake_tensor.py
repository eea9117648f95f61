# verdict: structure|raised
# T08: returns a fake tensor of torch's own, with a shape, a device and no values.

from torch._subclasses.fake_tensor import FakeTensorMode


def relu(x):
    return FakeTensorMode().from_tensor(x).relu()
