"""Text as people write it: documents with character offsets, before any tensor."""
