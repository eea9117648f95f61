# verdict: structure
# C26: returns a list that contains itself.


def relu(x):
    endless = []
    endless.append(endless)
    return endless
