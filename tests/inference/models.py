"""Tiny random model folders with a tokenizer, such as masks can be filled with."""

from pathlib import Path

import torch
from torch import nn

from spanlab.encoder import MaskedLMHead, SpanBoundaryHead, TransformerEncoder, preset, save_model
from spanlab.text import Tokenizer
from spanlab.text.tokenizer import Kind
from spanlab.text.train import TokenizerConfig, train_tokenizer

LINES = [
    "The old fisherman mended his nets while the harbour lights went out one after another.",
    "Nobody in the village remembered when the mill had stopped turning, and nobody asked.",
    "She wrote three letters, burned two of them, and sent the third without a signature.",
]
KINDS: dict[str, Kind] = {"bert": "wordpiece", "roberta": "bpe", "albert": "unigram", "electra": "wordpiece"}
SIZES: dict[Kind, int] = {"wordpiece": 120, "bpe": 300, "unigram": 90}


def make_tokenizer(system: str = "bert") -> Tokenizer:
    kind = KINDS[system]
    return train_tokenizer(LINES * 3, TokenizerConfig(kind=kind, vocab_size=SIZES[kind]))


def shake(module: nn.Module, seed: int = 5) -> None:
    """Draw every weight, norms and biases too, so that probabilities differ and a swap would show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))


def make_folder(
    folder: Path, *, sbo: dict[str, object] | None = None, mlm: bool = True, max_positions: int = 64
) -> Path:
    """A BERT of two layers; `sbo` are the options of its span boundary head, None for none."""
    tokenizer = make_tokenizer()
    size = tokenizer.vocab_size
    encoder = TransformerEncoder(preset("bert", "tiny", vocab_size=size, max_positions=max_positions))
    heads: dict[str, nn.Module] = {"mlm": MaskedLMHead(encoder.config)} if mlm else {}
    if sbo is not None:
        heads["sbo"] = SpanBoundaryHead(128, size, **sbo)  # type: ignore[arg-type]
    for number, module in enumerate((encoder, *heads.values())):
        shake(module, number)
    save_model(folder, encoder, heads)
    tokenizer.save(folder)
    return folder
