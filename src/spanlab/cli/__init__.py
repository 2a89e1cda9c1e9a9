"""The command line: one file a command, thin; what a command does lives in the rooms to the left."""
