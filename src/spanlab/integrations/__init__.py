"""SpanLab in other libraries' forms: a component of spaCy, transformers' pipelines, estimators of scikit-learn.

Each is a face of `spanlab.load` or `spanlab.finetune` and computes nothing of its own. The library that a face is for
is imported with its module, never with another.
"""
