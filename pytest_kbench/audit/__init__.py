"""A task graded by kernels that are known to be wrong: does it notice? `audit` is the door, `result` what it says."""
