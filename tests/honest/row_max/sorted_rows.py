"""The last of each sorted row; NaN sorts last."""


def row_max(x):
    return x.sort(1).values[:, -1]
