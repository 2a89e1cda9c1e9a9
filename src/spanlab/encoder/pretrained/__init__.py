"""Weights in and out: Hugging Face folders and repositories, and SpanBERT's released file."""

from spanlab.encoder.pretrained.load import LoadReport, Model, load_model
from spanlab.encoder.pretrained.locate import locate_model
from spanlab.encoder.pretrained.save import class_of, copy_tokenizer, save_model

__all__ = ["LoadReport", "Model", "class_of", "copy_tokenizer", "load_model", "locate_model", "save_model"]
