"""Pictures and pages: what SpanLab found or was given, drawn for people to look at."""
