# verdict: raised
# E03: raises an exception that cannot be shown.


class Unspeakable(BaseException):
    """Its text raises too."""

    def __str__(self):
        raise Unspeakable

    __repr__ = __str__


def relu(x):
    raise Unspeakable
