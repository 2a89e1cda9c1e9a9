"""Pictures and pages: what a run, a mask or a model looks like."""
