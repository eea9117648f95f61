"""A scan in logarithmically many steps: pairs of factor and sum, combined over growing distances."""


def recurrence(x, first, decay):
    sums = x.clone()
    sums[0] += decay * first
    factors = decay.expand(x.shape).clone()
    reach = 1
    while reach < x.shape[0]:
        earlier, factor = sums[:-reach].clone(), factors[reach:].clone()
        sums[reach:] += factor * earlier
        factors[reach:] = factor * factors[:-reach].clone()
        reach *= 2
    return sums
