"""Kinds of evidence. Each module has `cases(task, settings)` and `check(bench, named) -> Record`."""
