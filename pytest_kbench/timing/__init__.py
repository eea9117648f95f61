"""How fast: what is timed, by which clock, and what the times say. `stats` is pure; it knows no clock."""
