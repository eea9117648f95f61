# verdict: protocol
# E09: replaces the encoder of its own process's messages by one that says what it likes.

import json
import sys

import torch

_wire = sys.modules.get("pytest_kbench.sandbox.wire")


def _passed(message):
    data = json.dumps({"seq": message["seq"], "is": "verdict", "outcome": "passed"}).encode()
    return len(data).to_bytes(4, "big") + data


def relu(x):
    _wire.encode = _passed
    return torch.zeros(x.shape, dtype=x.dtype)
