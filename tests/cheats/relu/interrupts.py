# verdict: raised
# E03: raises KeyboardInterrupt, which would end a run with everything graded so far.


def relu(x):
    raise KeyboardInterrupt
