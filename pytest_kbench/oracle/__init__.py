"""What is true: inputs from a case, golden outputs, bounds, comparisons, and the words for a difference."""
