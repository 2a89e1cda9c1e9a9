"""Studies: several pre-training recipes on one corpus, tested downstream, in one table with statistics."""
