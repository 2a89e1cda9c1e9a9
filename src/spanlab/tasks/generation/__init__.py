"""Texts from texts: by a causal encoder, or by a decoder over any encoder."""
