# verdict: timeout
# Never returns.


def relu(x):
    while True:
        pass
