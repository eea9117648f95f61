"""Task files: each format turns a file into a `Task`."""
