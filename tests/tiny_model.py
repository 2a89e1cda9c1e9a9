"""A model folder that is made in a second: a small vocabulary from the almanac, and random weights."""

from pathlib import Path

import torch

from spanlab.encoder import EncoderConfig, MaskedLMHead, TransformerEncoder, save_model
from spanlab.samples import load
from spanlab.text.train import TokenizerConfig, train_tokenizer


def write_tiny_model(folder: Path, **changes: object) -> Path:
    texts = [passage.text for passage in load()]
    config = TokenizerConfig(kind="wordpiece", vocab_size=1500, lowercase=True)
    tokenizer = train_tokenizer(texts, config)
    shape = {"width": 32, "layers": 2, "heads": 4, "inner_width": 64, "max_positions": 128, "dropout": 0.0}
    shape |= {"attention_dropout": 0.0, "vocab_size": tokenizer.vocab_size, "init_std": 0.1, **changes}
    torch.manual_seed(3)
    encoder = TransformerEncoder(EncoderConfig(**shape))  # type: ignore[arg-type]
    save_model(folder, encoder, {"mlm": MaskedLMHead(encoder.config)})
    tokenizer.save(folder)
    return folder
