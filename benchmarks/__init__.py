"""SpanLab against its peers, measured in the same run; each module ends in one line `RESULT {json}` with ratios."""
