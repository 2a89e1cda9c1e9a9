"""The command line: one file per command, with its options and what it prints; other packages do the work."""
