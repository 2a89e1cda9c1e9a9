"""Raw files to shards, shards to blocks, and the order of samples. No masking here."""
