"""Readers of labelled files, one file a format: whatever the format, a row has the fields of its JSON line."""
