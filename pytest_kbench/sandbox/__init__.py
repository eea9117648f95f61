"""Where candidates run: locked-down children of a zygote, and the grader's side of them.

Use `pytest_kbench.sandbox.host`; this package imports nothing by itself, because the zygote must stay light.
"""
