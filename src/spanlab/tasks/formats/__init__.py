"""Readers of labelled files, one module per format; each yields rows with the fields of the task's JSON lines."""
