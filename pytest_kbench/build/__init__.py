"""From a candidate's sources to a program that a child can load, compiled once and kept: `program.prepare`."""
