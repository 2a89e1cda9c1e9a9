"""SpanBERT's released pre-training file: a torch file with `model` and `args`, in the names of a fairseq fork.

Its encoder and MLM head are BERT's under a `decoder.` prefix, with `gamma` and `beta` for the norms; the span boundary
head is `cls.pair_target_predictions`. The config follows from the shapes of the tensors. `args` is an
`argparse.Namespace`, the only object beside tensors that is accepted.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from spanlab.encoder.architectures import WeightRule, preset
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.pretrained.load import Model, assemble
from spanlab.encoder.pretrained.tensor_files import check_dense, read_torch_file
from spanlab.encoder.pretrained.translate import modern_name, to_ours
from spanlab.errors import ConfigError, WeightsError

_PREFIX = "decoder."
_PAIR = "cls.pair_target_predictions"
_PAIR_RULES = (
    WeightRule("position", (f"{_PAIR}.position_embeddings",)),
    WeightRule("dense_in", (f"{_PAIR}.mlp_layer_norm.linear1",)),
    WeightRule("norm_in", (f"{_PAIR}.mlp_layer_norm.layer_norm1",)),
    WeightRule("dense_out", (f"{_PAIR}.mlp_layer_norm.linear2",)),
    WeightRule("norm_out", (f"{_PAIR}.mlp_layer_norm.layer_norm2",)),
    WeightRule("bias", (f"{_PAIR}.bias",)),
)
_WORD = "bert.embeddings.word_embeddings.weight"


def read_spanbert_release(path: Path) -> Model:
    """The encoder with its MLM, next-sentence and span boundary heads, as far as the file has them."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        loaded = read_torch_file(path)
    state = loaded.get("model") if isinstance(loaded, dict) else None
    if not isinstance(state, dict) or f"{_PREFIX}{_WORD}" not in state:
        fix = "expected SpanBERT's pre-training checkpoint, or a model folder"
        raise WeightsError("no 'model' with decoder.bert.… weights in it", path=path, fix=fix)
    named = {name: tensor for name, tensor in state.items() if isinstance(name, str) and isinstance(tensor, Tensor)}
    check_dense(named, path)
    theirs = {modern_name(name.removeprefix(_PREFIX)): tensor for name, tensor in named.items()}
    pair, used = to_ours(theirs, _PAIR_RULES)
    rest = {name: tensor for name, tensor in theirs.items() if name not in used and not name.startswith(_PAIR)}
    extra = {f"sbo.{name}": tensor for name, tensor in pair.items()}
    try:
        config = _config(rest)
    except ConfigError as error:
        raise ConfigError(error.cause, path=path, fix=error.fix) from None
    except (KeyError, ValueError, IndexError):  # a tensor that decides the shape is missing, or has too few axes
        raise WeightsError("not SpanBERT's weights: the shape of the model cannot be told", path=path) from None
    return assemble(config, rest, extra, path)


def _config(state: dict[str, Tensor]) -> EncoderConfig:
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
