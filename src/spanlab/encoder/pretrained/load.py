"""A model folder in: Hugging Face layout, or our own for encoders that no transformers class can hold.

What transformers has a name for is in `model.safetensors` (or its sharded or `.bin` forms) under that name, everything
else (the span boundary head, heads that the saved class does not hold) in `heads.safetensors`. Every weight of the
encoder must be there and fit; a weight that belongs to nothing is reported by name.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from spanlab.config import Source, from_mapping
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.elmo.model import Elmo
from spanlab.encoder.heads import (
    AnswerHead,
    BidirectionalLMHead,
    CausalLMHead,
    MaskedLMHead,
    PermutationLMHead,
    ReplacedTokenHead,
    SentencePairHead,
    SequenceHead,
    SpanBoundaryConfig,
    SpanBoundaryHead,
    TokenHead,
)
from spanlab.encoder.model import Encoder
from spanlab.encoder.pretrained import config_json, tensor_files
from spanlab.encoder.pretrained.locate import locate_model
from spanlab.encoder.pretrained.model import FORMAT_VERSION, HEAD_PURPOSES, LoadReport, Model
from spanlab.encoder.pretrained.names import NAMES, TASK_HEADS
from spanlab.encoder.pretrained.translate import State, body_rules, normalise, to_ours
from spanlab.encoder.pretrained.vocabulary import check_tokenizer_fits
from spanlab.encoder.xlnet.model import build_encoder
from spanlab.errors import ConfigError, WeightsError, did_you_mean

HeadSettings = Mapping[str, Mapping[str, Any]]
"""By the name of a head: the options it was built with."""


def load_model(folder_or_id: str | Path, *, revision: str | None = None) -> Model:
    """The encoder and heads of a model folder, a run folder or a Hugging Face repository."""
    folder = locate_model(folder_or_id, revision=revision)
    mapping = config_json.read_config_json(folder)
    model_type = mapping.get("model_type")
    if model_type == config_json.NATIVE_TYPE:
        return _load_native(folder, mapping)
    if model_type == config_json.ELMO_TYPE:
        return _load_elmo(folder, mapping)
    if model_type not in config_json.KEYS:
        return _load_through_transformers(folder, model_type)
    described = _read_description(folder)
    training = described.get("training", {})
    config = replace(config_json.parse_config(mapping, folder / "config.json"), **training)
    check_tokenizer_fits(folder, config.vocab_size)
    settings = described.get("head_settings", {})
    own, tasks = _read_own_weights(folder)
    class_name = next(iter(mapping.get("architectures") or ()), None)
    model = assemble(config, tensor_files.read_folder(folder), own, folder, settings, class_name)
    return replace(model, tasks=tasks, described=described)


def assemble(
    config: EncoderConfig,
    theirs: Mapping[str, Tensor],
    extra: State,
    folder: Path | None,
    settings: HeadSettings = MappingProxyType({}),
    class_name: str | None = None,
) -> Model:
    """Build the encoder and every head that `theirs` (Hugging Face names) and `extra` (ours) hold weights for.

    `class_name` is the transformers class `theirs` belong to: it tells apart heads whose weights have the same name.
    """
    names = NAMES[config.architecture]
    spelled = normalise(theirs, names)
    body, used = to_ours(spelled, body_rules(names, config))
    body.update({name.removeprefix("encoder."): t for name, t in extra.items() if name.startswith("encoder.")})
    config = replace(config, pooler="pooler.weight" in body)
    encoder = build_encoder(config)
    _fill(encoder, body, folder)
    heads: dict[str, nn.Module] = {}
    for name, rules in names.heads.items():
        if name in TASK_HEADS and (class_name, (name,)) not in names.classes:
            continue
        found, used_here = to_ours(spelled, rules)
        used |= used_here
        if _tied(found.get("decoder"), encoder):
            found.pop("decoder", None)
        # GPT's head is the word table itself: it is there even when no tensor of its own is.
        if found or name == "clm":
            heads[name] = _build_head(name, config, found, folder)
    heads |= _own_heads(extra, config, folder, settings)
    return Model(encoder, heads, LoadReport(tuple(sorted(set(spelled) - used))), folder)


def _own_heads(
    extra: State, config: EncoderConfig, folder: Path | None, settings: HeadSettings
) -> dict[str, nn.Module]:
    """The heads whose weights are under our own names, each led by its objective."""
    heads: dict[str, nn.Module] = {}
    for name in sorted({key.split(".")[0] for key in extra} - {"encoder"}):
        own = {key.removeprefix(f"{name}."): value for key, value in extra.items() if key.startswith(f"{name}.")}
        heads[name] = _build_head(name, config, own, folder, settings.get(name, {}))
    return heads


def _tied(decoder: Tensor | None, encoder: Encoder) -> bool:
    word = encoder.embeddings.word.weight
    return decoder is not None and decoder.shape == word.shape and torch.equal(decoder, word)


def _build_head(
    name: str, config: EncoderConfig, state: State, folder: Path | None, settings: Mapping[str, Any] | None = None
) -> nn.Module:
    tied = "decoder" not in state
    if name == "mlm":
        head: nn.Module = MaskedLMHead(config, tied=tied)
    elif name == "clm":
        head = CausalLMHead(config, tied=tied)
    elif name == "plm":
        head = PermutationLMHead(config, tied=tied)
    elif name == "bilm":
        head = BidirectionalLMHead(config)
    elif name in {"nsp", "sop"}:
        head = SentencePairHead(config)
    elif name == "rtd":
        head = ReplacedTokenHead(config)
    elif name == "sbo":
        head = _span_boundary_head(config, state, settings or {}, folder)
    elif name in TASK_HEADS:
        head = _task_head(name, config, state)
    else:
        raise WeightsError(f"unknown head '{name}'{did_you_mean(name, HEAD_PURPOSES)}", path=folder)
    _fill(head, state, folder, part=f"{name}.")
    return head


def _task_head(name: str, config: EncoderConfig, state: State) -> nn.Module:
    """Its weights tell how many labels it has; where they are missing, filling it says so."""
    if name == "answer":
        return AnswerHead(config)
    labels = len(state["classifier.weight"]) if "classifier.weight" in state else 1
    return SequenceHead(config, labels) if name == "sequence" else TokenHead(config, labels)


def _span_boundary_head(
    config: EncoderConfig, state: State, settings: Mapping[str, Any], folder: Path | None
) -> SpanBoundaryHead:
    """A file without settings is a published one: its shapes tell what may differ."""
    position, dense_in = state.get("position.weight"), state.get("dense_in.weight")
    shape = {} if position is None else {"max_span": position.shape[0], "position_width": position.shape[1]}
    width = config.width + shape.get("position_width", 0)
    combine = "sum" if dense_in is not None and dense_in.shape[1] == width else "concat"
    found = {"max_span": None, **shape, "combine": combine, **settings}
    source = Source(path=str(folder / "spanlab.json") if folder else None)
    options = from_mapping(SpanBoundaryConfig, found, source)
    return SpanBoundaryHead(config.width, config.vocab_size, table_width=config.table_width, **vars(options))


def _fill(module: nn.Module, state: State, folder: Path | None, part: str = "") -> None:
    """Load `state` into `module`; every weight must be there and fit."""
    wanted = module.state_dict()
    missing = [part + name for name in wanted if name not in state]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise WeightsError(f"missing weights: {', '.join(missing[:3])}{more}", path=folder)
    for name, tensor in wanted.items():
        if tensor.shape != state[name].shape:
            found, needed = tuple(state[name].shape), tuple(tensor.shape)
            raise WeightsError(f"weight '{part}{name}' is {found} and the config asks for {needed}", path=folder)
    module.load_state_dict({name: state[name] for name in wanted})


def _read_own_weights(folder: Path) -> tuple[State, dict[str, State]]:
    """The weights under our own names: those of the encoder and its pre-training heads, and by name those of tasks."""
    path = folder / "heads.safetensors"
    found = tensor_files.read_file(path) if path.is_file() else {}
    tasks: dict[str, State] = {}
    for name in [name for name in found if name.startswith("tasks.")]:
        _, task, weight = name.split(".", 2)
        tasks.setdefault(task, {})[weight] = found.pop(name)
    return found, tasks


def _read_description(folder: Path) -> dict[str, Any]:
    """What `spanlab.json` keeps, such as the training settings of the encoder; empty for a foreign folder."""
    path = folder / "spanlab.json"
    if not path.is_file():
        return {}
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        version, settings = described.get("format_version"), described.get("head_settings", {})
        sections = [described.get("training", {}), settings, *settings.values()]
        readable = isinstance(version, int) and all(isinstance(section, dict) for section in sections)
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError):
        readable = False
    if not readable:
        raise ConfigError("not a SpanLab description", path=path) from None
    if version > FORMAT_VERSION:
        raise ConfigError(f"format {version} is newer than this SpanLab reads ({FORMAT_VERSION})", path=path)
    return dict(described)


def _load_native(folder: Path, mapping: Mapping[str, Any]) -> Model:
    config = config_json.parse_config(mapping, folder / "config.json")
    check_tokenizer_fits(folder, config.vocab_size)
    encoder = build_encoder(config)
    _fill(encoder, tensor_files.read_folder(folder), folder)
    described = _read_description(folder)
    own, tasks = _read_own_weights(folder)
    heads = _own_heads(own, config, folder, described.get("head_settings", {}))
    if "clm" in described.get("heads", ()) and "clm" not in heads:  # the word table itself, without a tensor of its own
        heads["clm"] = _build_head("clm", config, {}, folder)
    return Model(encoder, heads, LoadReport(), folder, tasks, described)


def _load_elmo(folder: Path, mapping: Mapping[str, Any]) -> Model:
    shape = config_json.parse_elmo_config(mapping, folder / "config.json")
    check_tokenizer_fits(folder, shape.vocab_size)
    encoder, state = Elmo(shape), tensor_files.read_folder(folder)
    _fill(encoder, state, folder)
    report = LoadReport(tuple(sorted(set(state) - set(encoder.state_dict()))))
    own, tasks = _read_own_weights(folder)
    heads = _own_heads(own, encoder.config, folder, {})
    return Model(encoder, heads, report, folder, tasks, _read_description(folder))


def _load_through_transformers(folder: Path, model_type: object) -> Model:
    from spanlab.encoder.transformers_encoder import TransformersEncoder

    if not isinstance(model_type, str):
        fix = f"say which of {', '.join(config_json.KEYS)} the model is"
        raise ConfigError("the key 'model_type' is missing", path=folder / "config.json", fix=fix)
    encoder = TransformersEncoder.load(folder)
    check_tokenizer_fits(folder, encoder.config.vocab_size)
    described = _read_description(folder)
    own, tasks = _read_own_weights(folder)
    heads = _own_heads(own, encoder.config, folder, described.get("head_settings", {}))
    return Model(encoder, heads, folder=folder, tasks=tasks, described=described)
