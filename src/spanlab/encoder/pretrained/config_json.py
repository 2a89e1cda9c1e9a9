"""Hugging Face's `config.json` to an `EncoderConfig` and back.

Reading is strict: a key nobody knows is an error with the nearest known name, and a setting that would change what is
computed and that we do not have (relative positions, cross-attention, pruned heads) is refused. Settings that only
concern training or generation are passed over.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from spanlab.config import Source, from_mapping, to_mapping
from spanlab.encoder.config import SYSTEMS, EncoderConfig
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.encoder.pretrained.config_keys import IGNORED_KEYS, REFUSED_SETTINGS
from spanlab.errors import ConfigError, did_you_mean

NATIVE_TYPE = "spanlab"
"""The `model_type` of encoders that no transformers class can hold; their config is an EncoderConfig as it is."""
ELMO_TYPE = "spanlab-elmo"
"""The `model_type` of ELMo, of which transformers has none; its config is an ElmoConfig as it is."""

_BERT_KEYS = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner_width": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "max_positions": "max_position_embeddings",
    "segments": "type_vocab_size",
    "norm_eps": "layer_norm_eps",
    "init_std": "initializer_range",
    "pad_id": "pad_token_id",
}
_GPT_KEYS = {
    "vocab_size": "vocab_size",
    "width": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "max_positions": "n_positions",
    "norm_eps": "layer_norm_epsilon",
    "init_std": "initializer_range",
    "pad_id": "pad_token_id",
}
KEYS: dict[str, dict[str, str]] = {
    "bert": _BERT_KEYS,
    "roberta": _BERT_KEYS,
    "electra": {**_BERT_KEYS, "embedding_width": "embedding_size"},
    "albert": {
        **_BERT_KEYS,
        "embedding_width": "embedding_size",
        "layer_groups": "num_hidden_groups",
        "inner_layers": "inner_group_num",
    },
    "gpt2": {**_GPT_KEYS, "activation": "activation_function", "inner_width": "n_inner"},
    "openai-gpt": {**_GPT_KEYS, "activation": "afn"},
    "xlnet": {
        "vocab_size": "vocab_size",
        "width": "d_model",
        "layers": "n_layer",
        "heads": "n_head",
        "inner_width": "d_inner",
        "activation": "ff_activation",
        "dropout": "dropout",
        "norm_eps": "layer_norm_eps",
        "init_std": "initializer_range",
        "pad_id": "pad_token_id",
        "max_distance": "clamp_len",
        "memory": "mem_len",
        "reuse": "reuse_len",
    },
}
"""Our field and their key, per architecture."""

_GPT_SHAPE: dict[str, Any] = {
    "segments": 0,
    "embedding_norm": False,
    "causal": True,
    "pooler": False,
    "norm_eps": 1e-5,
    "activation": "gelu_tanh",
    "pad_id": None,
}
SHAPES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"pad_id": 1, "norm_eps": 1e-12},
    "electra": {"pooler": False, "embedding_width": 128, "width": 256, "heads": 4, "inner_width": 1024},
    "albert": {
        "embedding_width": 128,
        "vocab_size": 30000,
        "width": 4096,
        "heads": 64,
        "inner_width": 16384,
        "activation": "gelu_tanh",
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "layer_groups": 1,
    },
    "gpt2": {**_GPT_SHAPE, "norm_place": "pre", "final_norm": True, "max_positions": 1024, "vocab_size": 50257},
    "openai-gpt": {**_GPT_SHAPE, "vocab_size": 40478},
    "xlnet": {**SYSTEMS["xlnet"], "width": 1024, "layers": 24, "heads": 16, "inner_width": 4096, "memory": 512},
}
"""What each architecture fixes, and what its config means where a key is left out."""

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_TRAINING_FIELDS = ("stochastic_depth", "checkpoint_layers")
_XLNET_FIELDS = (*_TRAINING_FIELDS, "attention_dropout", "max_positions")
"""transformers has one dropout for all of XLNet, and no length that it was trained at."""


def read_config_json(folder: Path) -> dict[str, Any]:
    """The mapping in a folder's `config.json`."""
    path = folder / "config.json"
    try:
        mapping = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError("no such file", path=path, fix="give a model folder") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"not valid JSON: {error.msg}", path=path, line=error.lineno, column=error.colno) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text (byte {error.start})", path=path) from None
    if not isinstance(mapping, dict):
        raise ConfigError("expected a JSON object", path=path)
    return mapping


def parse_config(mapping: Mapping[str, Any], path: Path | None = None) -> EncoderConfig:
    """The `EncoderConfig` of a `config.json` whose `model_type` is one of `KEYS`, or native."""
    model_type = mapping.get("model_type")
    try:
        if model_type == NATIVE_TYPE:
            return from_mapping(EncoderConfig, _current_keys(mapping["encoder"]))
        keys = KEYS[str(model_type)]
        _refuse_unknown(mapping, keys)
        return _translate(str(model_type), mapping, keys)
    except ConfigError as error:
        raise ConfigError(error.cause, path=path, fix=error.fix) from None


def _current_keys(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A native config with the keys of today; folders of version 0.1 say `farthest` for `max_distance`."""
    return {("max_distance" if key == "farthest" else key): value for key, value in mapping.items()}


def parse_elmo_config(mapping: Mapping[str, Any], path: Path | None = None) -> ElmoConfig:
    """The `ElmoConfig` of a `config.json` whose `model_type` says so."""
    if not isinstance(mapping.get("encoder"), dict):
        raise ConfigError("the section 'encoder' is missing", path=path)
    return from_mapping(ElmoConfig, mapping["encoder"], Source(path=None if path is None else str(path)))


def _refuse_unknown(mapping: Mapping[str, Any], keys: Mapping[str, str]) -> None:
    known = {*keys.values(), *IGNORED_KEYS, *REFUSED_SETTINGS}
    for key, value in mapping.items():
        if key not in known:
            fix = "correct it, or remove it if it means nothing to the model"
            raise ConfigError(f"unknown key '{key}'{did_you_mean(key, known)}", fix=fix)
        allowed = REFUSED_SETTINGS.get(key)
        if allowed is not None and value not in allowed:
            raise ConfigError(f"'{key}' is {value!r}, which SpanLab's encoder does not have")


def _translate(model_type: str, mapping: Mapping[str, Any], keys: Mapping[str, str]) -> EncoderConfig:
    values: dict[str, Any] = {"architecture": model_type, **SHAPES[model_type]}
    values.update({ours: mapping[theirs] for ours, theirs in keys.items() if theirs in mapping})
    if "activation" in values and keys["activation"] in mapping:
        values["activation"] = _activation(model_type, str(mapping[keys["activation"]]))
    if model_type in {"gpt2", "openai-gpt"} and values.get("inner_width") is None:
        values["inner_width"] = 4 * values.get("width", EncoderConfig.width)
    if model_type == "roberta":
        values["position_offset"] = (values["pad_id"] or 0) + 1
        values["max_positions"] = values.get("max_positions", EncoderConfig.max_positions) - values["position_offset"]
    if model_type == "xlnet":
        values["attention_dropout"] = values.get("dropout", EncoderConfig.attention_dropout)
        # -1 and 0 stand for "no limit" there.
        values |= {
            name: values.get(name) if (values.get(name) or 0) > 0 else None
            for name in ("max_distance", "memory", "reuse")
        }
    return from_mapping(EncoderConfig, values)


def _activation(model_type: str, name: str) -> str:
    # OpenAI's GPT calls the tanh approximation plain "gelu".
    name = "gelu_new" if model_type == "openai-gpt" and name == "gelu" else name
    if name not in _ACTIVATIONS:
        raise ConfigError(f"unknown activation '{name}'; known are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def is_expressible(config: EncoderConfig) -> bool:
    """Whether some transformers class computes what this config describes."""
    if config.architecture not in KEYS:
        return False
    back = parse_config(write_config(config, "", torch_dtype="float32"))
    neutral = {name: getattr(config, name) for name in (*_unwritten_fields(config), "pooler")}
    return _in_full(replace(back, **neutral)) == _in_full(config)


def _in_full(config: EncoderConfig) -> EncoderConfig:
    """With what may be left unsaid: a table as wide as the body, weights of its own for each layer."""
    return replace(config, embedding_width=config.table_width, layer_groups=config.groups)


def write_config(config: EncoderConfig, class_name: str, *, torch_dtype: str) -> dict[str, Any]:
    """The mapping for `config.json`; parsed again it gives the same shape."""
    if config.architecture not in KEYS:
        return native_config(config)
    mapping: dict[str, Any] = {"model_type": config.architecture, "architectures": [class_name], "dtype": torch_dtype}
    for ours, theirs in KEYS[config.architecture].items():
        mapping[theirs] = getattr(config, ours)
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    activation = names[config.activation]
    if config.architecture == "openai-gpt" and activation == "gelu_new":
        activation = "gelu"
    mapping[KEYS[config.architecture]["activation"]] = activation
    if "embedding_size" in mapping:
        mapping["embedding_size"] = config.table_width
    if config.architecture == "albert":
        mapping["num_hidden_groups"] = config.groups
    if config.architecture == "roberta":
        mapping["max_position_embeddings"] = config.max_positions + config.position_offset
    if config.architecture in {"gpt2", "openai-gpt"}:
        mapping["embd_pdrop"] = config.dropout
    if config.architecture == "xlnet":
        mapping |= {"clamp_len": config.max_distance or -1, "d_head": config.head_width, "untie_r": True}
    return mapping


def native_config(config: EncoderConfig) -> dict[str, Any]:
    """The mapping for an encoder that no transformers class can hold."""
    return {"model_type": NATIVE_TYPE, "architectures": ["SpanLabEncoder"], "encoder": to_mapping(config)}


def elmo_config(shape: ElmoConfig) -> dict[str, Any]:
    """The mapping for an ELMo."""
    return {"model_type": ELMO_TYPE, "architectures": ["SpanLabElmo"], "encoder": to_mapping(shape)}


def training_settings(config: EncoderConfig) -> dict[str, Any]:
    """The fields that `config.json` has no key for, where they differ from their defaults."""
    defaults = {field.name: field.default for field in fields(EncoderConfig)}
    names = _unwritten_fields(config)
    return {name: getattr(config, name) for name in names if getattr(config, name) != defaults[name]}


def _unwritten_fields(config: EncoderConfig) -> tuple[str, ...]:
    return _XLNET_FIELDS if config.architecture == "xlnet" else _TRAINING_FIELDS
