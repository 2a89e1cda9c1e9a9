"""A folder's `config.json` to an `EncoderConfig` and back.

Reading is strict where it matters: a setting that would change what is computed and that we do not have
(cross-attention, pruned heads) is refused, and so is a misspelt key of the encoder. Settings that only concern
training, task heads or generation are ignored. Other programs add keys of their own, which are ignored, too, but named
to the user. The keys that describe the encoder itself are those of its architecture.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from spanlab.config import Source, from_mapping, to_mapping
from spanlab.encoder.architectures import ARCHITECTURES, HuggingFaceLayout
from spanlab.encoder.architectures.base import UNWRITTEN_FIELDS
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.errors import ConfigError, did_you_mean
from spanlab.strict_parsing import read_json

NATIVE_TYPE = "spanlab"
"""The `model_type` of encoders that no transformers class can hold; `encoder` is the mapping of an EncoderConfig."""
ELMO_TYPE = "spanlab-elmo"
"""The `model_type` of ELMo; `encoder` is the mapping of an ElmoConfig."""
NATIVE_TYPES = (NATIVE_TYPE, ELMO_TYPE)
LAYOUTS: dict[str, HuggingFaceLayout] = {
    name: architecture.hugging_face
    for name, architecture in ARCHITECTURES.items()
    if architecture.hugging_face is not None
}
"""By `model_type`: the architectures that are read and written in Hugging Face layout."""

_BOOKKEEPING = """
model_type architectures transformers_version torch_dtype dtype _name_or_path name_or_path _commit_hash auto_map
name language license tokenizer_class _attn_implementation _attn_implementation_internal attn_implementation
xla_device torchscript use_bfloat16 tf_legacy_loss transformers_weights adapters
sentence_transformers
"""
_HEADS_AND_TASKS = """
id2label label2id num_labels _num_labels problem_type finetuning_task task_specific_params classifier_dropout
classifier_dropout_prob summary_type summary_use_proj summary_activation summary_first_dropout
summary_last_dropout summary_proj_to_labels summary_hidden_size tie_word_embeddings tie_encoder_decoder
pooler_type pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head directionality
"""
_GENERATION = """
bos_token_id eos_token_id sep_token_id cls_token_id unk_token_id mask_token_id decoder_start_token_id
forced_bos_token_id forced_eos_token_id prefix bad_words_ids max_length min_length do_sample early_stopping num_beams
num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
no_repeat_ngram_size encoder_no_repeat_ngram_size num_return_sequences output_scores return_dict_in_generate
remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens use_cache output_past
"""
_RUNNING = """
output_attentions output_hidden_states return_dict gradient_checkpointing chunk_size_feed_forward is_encoder_decoder
cross_attention_hidden_size embd_pdrop n_ctx n_special predict_special_tokens net_structure_type gap_size
num_memory_blocks down_scale_factor resid_pdrop reorder_and_upcast_attn keys_to_ignore_at_inference
mlp_dropout layer_norm_eps initializer_cutoff_factor deterministic_flash_attn reference_compile repad_logits_with_grad
sparse_prediction sparse_pred_ignore_index classifier_pooling
d_head bi_data same_length use_mems_eval use_mems_train start_n_top end_n_top
"""
IGNORED_KEYS: frozenset[str] = frozenset((_BOOKKEEPING + _HEADS_AND_TASKS + _GENERATION + _RUNNING).split())
"""Keys that do not change what an encoder computes."""

ACCEPTED_VALUES: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "pruned_heads": ({}, None),
    "scale_attn_weights": (True, None),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "attn_type": ("bi",),
    "untie_r": (True,),
    "classifier_bias": (False,),
    "classifier_activation": ("gelu",),
    "decoder_bias": (True,),
    "quantization_config": ({}, None),
    "relative_attention": (False, None),
    "rotary_emb_fraction": (0, None),
    "rope_scaling": (None,),
    "alibi": (False, None),
    "alibi_starting_size": (0, None),
    "sliding_window": (None,),
    "attention_window": (None,),
    "prenorm": (False, None),
    "pre_norm": (False, None),
    "norm_first": (False, None),
    "use_rms_norm": (False, None),
    "scale_embedding": (False, None),
    "token_dropout": (False, None),
}
"""Keys that do, though the weights look alike, with the values that our encoders have."""

_MISSPELT = 0.85
"""How similar an unknown key is to a missing one that it was meant for."""


def read_config_json(folder: Path) -> dict[str, Any]:
    """The mapping in a folder's `config.json`."""
    path = folder / "config.json"
    try:
        mapping = read_json(path, error=ConfigError)
    except FileNotFoundError:
        raise ConfigError("no such file", path=path, fix="give a model folder") from None
    if not isinstance(mapping, dict):
        raise ConfigError("expected a JSON object", path=path)
    return mapping


def parse_config(mapping: Mapping[str, Any], path: Path | None = None) -> EncoderConfig:
    """The `EncoderConfig` of a `config.json` whose `model_type` is one of `LAYOUTS`."""
    model_type = str(mapping.get("model_type"))
    layout = LAYOUTS[model_type]
    try:
        check_keys(mapping, layout)
        values: dict[str, Any] = {"architecture": model_type, **layout.config_defaults}
        keys = {**layout.config_keys, **layout.config_keys_read}
        values |= {ours: mapping[theirs] for ours, theirs in keys.items() if theirs in mapping}
        if layout.config_keys["activation"] in mapping:
            activation = str(mapping[layout.config_keys["activation"]])
            if activation not in layout.activation_names:
                known = ", ".join(layout.activation_names)
                raise ConfigError(f"unknown activation '{activation}'; known are {known}")
            values["activation"] = layout.activation_names[activation]
        return from_mapping(EncoderConfig, _convert(values, layout))
    except ConfigError as error:
        cause = error.cause
        for ours, theirs in layout.config_keys.items():
            cause = cause.replace(f"'{ours}'", f"'{theirs}'")
        raise ConfigError(cause, path=path, fix=error.fix) from None


def _convert(values: dict[str, Any], layout: HuggingFaceLayout) -> dict[str, Any]:
    try:
        return layout.from_config_values(values)
    except TypeError:  # arithmetic with a value of the wrong type, which the strict reader names
        from_mapping(EncoderConfig, values)
        raise ConfigError("a value has the wrong type") from None


def saved_class(mapping: Mapping[str, Any], path: Path | None = None) -> str | None:
    """The transformers class that a folder was saved from, if `config.json` names one; it must be of `model_type`."""
    names = mapping.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"'architectures' is {names!r}; it must be a list of class names", path=path)
    name, model_type = names[0] if names else None, mapping["model_type"]
    owners = [owner for owner, layout in LAYOUTS.items() if name in dict(layout.classes)]
    if model_type in LAYOUTS and owners and model_type not in owners:
        cause = f"'model_type' is '{model_type}', but the model was saved as {name}, which is of type '{owners[0]}'"
        raise ConfigError(cause, path=path, fix=f"set model_type to '{owners[0]}'")
    return name


def parse_native_config(mapping: Mapping[str, Any], path: Path | None = None) -> EncoderConfig | ElmoConfig:
    """The config of a `config.json` whose `model_type` is one of `NATIVE_TYPES`."""
    section = mapping.get("encoder")
    if not isinstance(section, dict):
        raise ConfigError("the section 'encoder' is missing", path=path)
    source = Source(path=None if path is None else str(path))
    if mapping["model_type"] == ELMO_TYPE:
        return from_mapping(ElmoConfig, section, source)
    return from_mapping(EncoderConfig, _current_keys(section), source)


def _current_keys(section: Mapping[str, Any]) -> dict[str, Any]:
    """An EncoderConfig's mapping with the keys of today.

    Folders of version 0.1 say `farthest` for `max_distance`, and have a key `summary` that decided nothing.
    """
    renamed = {"farthest": "max_distance"}
    return {renamed.get(key, key): value for key, value in section.items() if key != "summary"}


def check_keys(mapping: Mapping[str, Any], layout: HuggingFaceLayout) -> tuple[str, ...]:
    """The keys that mean nothing to us; raises at a setting that we do not have, and at a misspelt one."""
    own = {*layout.config_keys.values(), *layout.config_keys_read.values()}
    unknown = []
    for key, value in mapping.items():
        if key in own or key in IGNORED_KEYS:
            continue
        if key in ACCEPTED_VALUES:
            if value not in ACCEPTED_VALUES[key]:
                raise ConfigError(f"'{key}' is {value!r}, which SpanLab's encoder does not have")
            continue
        if get_close_matches(key, own - mapping.keys(), n=1, cutoff=_MISSPELT):
            fix = "correct it, or remove it if it means nothing to the model"
            raise ConfigError(f"unknown key '{key}'{did_you_mean(key, own - mapping.keys())}", fix=fix)
        unknown.append(key)
    return tuple(unknown)


def is_expressible(config: EncoderConfig) -> bool:
    """Whether some transformers class computes what this config describes."""
    if config.architecture not in LAYOUTS:
        return False
    parsed = parse_config(config_json(config, "", torch_dtype="float32"))
    unwritten = (*LAYOUTS[config.architecture].unwritten_fields, "pooler")
    return _explicit(replace(parsed, **{name: getattr(config, name) for name in unwritten})) == _explicit(config)


def _explicit(config: EncoderConfig) -> EncoderConfig:
    """With the values that None stands for."""
    local_base = config.local_rotary_base or config.rotary_base
    return replace(config, embedding_width=config.table_width, layer_groups=config.groups, local_rotary_base=local_base)


def config_json(config: EncoderConfig, class_name: str, *, torch_dtype: str) -> dict[str, Any]:
    """The mapping for `config.json` in Hugging Face layout; `parse_config` gives the same config back."""
    layout = LAYOUTS[config.architecture]
    explicit = _explicit(config)
    activations = {ours: theirs for theirs, ours in reversed(list(layout.activation_names.items()))}
    return {
        "model_type": config.architecture,
        "architectures": [class_name],
        "dtype": torch_dtype,
        **{theirs: getattr(explicit, ours) for ours, theirs in layout.config_keys.items()},
        layout.config_keys["activation"]: activations.get(config.activation, config.activation),
        **layout.extra_config(config),
    }


def native_config_json(config: EncoderConfig | ElmoConfig) -> dict[str, Any]:
    """The mapping for an encoder that no transformers class can hold."""
    is_elmo = isinstance(config, ElmoConfig)
    return {
        "model_type": ELMO_TYPE if is_elmo else NATIVE_TYPE,
        "architectures": ["SpanLabElmo" if is_elmo else "SpanLabEncoder"],
        "encoder": to_mapping(config),
    }


def unwritten_settings(config: EncoderConfig) -> dict[str, Any]:
    """The fields that `config.json` has no key for, where they differ from their defaults."""
    layout = LAYOUTS.get(config.architecture)
    names = UNWRITTEN_FIELDS if layout is None else layout.unwritten_fields
    defaults = {field.name: field.default for field in fields(EncoderConfig)}
    return {name: getattr(config, name) for name in names if getattr(config, name) != defaults[name]}
