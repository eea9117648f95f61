# verdict: structure
# E03: returns an object whose class takes for ever to say its name.


class Endless(type):
    """Never answers."""

    @property
    def __name__(cls):
        while True:
            pass


class Output(metaclass=Endless):
    """An output of nothing."""


def relu(x):
    return Output()
