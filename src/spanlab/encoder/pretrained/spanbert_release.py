"""SpanBERT's own pre-training file: a torch file with `model` and `args`, in the names of a fairseq fork.

Its encoder and MLM head are BERT's under a `decoder.` prefix, with `gamma` and `beta` for the norms; the span boundary
head is `cls.pair_target_predictions`. The shape is read off the tensors. `args` is an `argparse.Namespace`, the only
object beside tensors that is let through.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from spanlab.encoder.config import EncoderConfig, preset
from spanlab.encoder.pretrained.load import assemble
from spanlab.encoder.pretrained.model import Model
from spanlab.encoder.pretrained.names import Rule
from spanlab.encoder.pretrained.tensor_files import read_torch_file
from spanlab.encoder.pretrained.translate import modern_name, to_ours
from spanlab.errors import WeightsError

_PREFIX = "decoder."
_PAIR = "cls.pair_target_predictions"
_PAIR_RULES = (
    Rule("position", (f"{_PAIR}.position_embeddings",)),
    Rule("dense_in", (f"{_PAIR}.mlp_layer_norm.linear1",)),
    Rule("norm_in", (f"{_PAIR}.mlp_layer_norm.layer_norm1",)),
    Rule("dense_out", (f"{_PAIR}.mlp_layer_norm.linear2",)),
    Rule("norm_out", (f"{_PAIR}.mlp_layer_norm.layer_norm2",)),
    Rule("bias", (f"{_PAIR}.bias",)),
)
_WORD = "bert.embeddings.word_embeddings.weight"


def read_spanbert_release(path: Path) -> Model:
    """The encoder with its MLM, next-sentence and span boundary heads, as far as the file holds them."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        loaded = read_torch_file(path)
    state = loaded.get("model") if isinstance(loaded, dict) else None
    if not isinstance(state, dict) or f"{_PREFIX}{_WORD}" not in state:
        fix = "expected SpanBERT's pre-training checkpoint, or a model folder"
        raise WeightsError("no 'model' with decoder.bert.… weights in it", path=path, fix=fix)
    theirs = {
        modern_name(name.removeprefix(_PREFIX)): tensor for name, tensor in state.items() if isinstance(tensor, Tensor)
    }
    pair, used = to_ours(theirs, _PAIR_RULES)
    rest = {name: tensor for name, tensor in theirs.items() if name not in used and not name.startswith(_PAIR)}
    extra = {f"sbo.{name}": tensor for name, tensor in pair.items()}
    return assemble(_shape(rest), rest, extra, path)


def _shape(state: dict[str, Tensor]) -> EncoderConfig:
    vocab_size, width = state[_WORD].shape
    return preset(
        "spanbert",
        vocab_size=vocab_size,
        width=width,
        heads=max(1, width // 64),
        layers=1 + max(int(name.split(".")[3]) for name in state if name.startswith("bert.encoder.layer.")),
        inner_width=state["bert.encoder.layer.0.intermediate.dense.weight"].shape[0],
        max_positions=state["bert.embeddings.position_embeddings.weight"].shape[0],
        segments=state["bert.embeddings.token_type_embeddings.weight"].shape[0],
    )
