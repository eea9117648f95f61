"""An object that is called, and counts."""


class Kernel:
    """Keeps nothing but a count."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x.clamp_min(0)


relu = Kernel()
