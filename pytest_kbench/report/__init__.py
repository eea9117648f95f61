"""Records as text. Nothing here grades, and nothing else formats."""
