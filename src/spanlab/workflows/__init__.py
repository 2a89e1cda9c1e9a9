"""Whole jobs, as the commands and the Python functions of the same name do them: settings in, a finished folder out."""
