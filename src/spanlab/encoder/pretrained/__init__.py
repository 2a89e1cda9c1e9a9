"""Weights in and out: Hugging Face folders and repositories, and SpanBERT's own release."""

from spanlab.encoder.pretrained.load import load_model
from spanlab.encoder.pretrained.locate import locate_model
from spanlab.encoder.pretrained.model import LoadReport, Model
from spanlab.encoder.pretrained.save import class_of, copy_tokenizer, save_model

__all__ = ["LoadReport", "Model", "class_of", "copy_tokenizer", "load_model", "locate_model", "save_model"]
