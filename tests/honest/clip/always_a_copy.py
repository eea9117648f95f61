"""Copies where there is nothing to clip."""


def clip(x, limit):
    return x.clone() if bool((x.abs() <= limit).all()) else x.clamp(-limit, limit)
