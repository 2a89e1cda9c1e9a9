"""Loading: a model folder in, an encoder with its heads out.

Folders have the Hugging Face layout, or our own for encoders that no transformers class can hold. What transformers has
a name for is in `model.safetensors` (or its sharded or `.bin` forms) under that name, all else (the span boundary
head, heads that the saved class does not hold) in `heads.safetensors`. Every weight of the encoder must be there and
fit; a weight that belongs to nothing is reported by name. A folder that holds only what was added to a model in the box
names that model in `spanlab.json`, and the encoder is read from there.

Nothing in a folder is trusted: types and ranges are checked before they are used, and what a config asks for is
compared with what the files hold before memory is taken for it.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from spanlab.atomic_io import sha256_of
from spanlab.config import AtLeast, Source, from_mapping, to_mapping
from spanlab.encoder.architectures import ARCHITECTURES, TASK_HEADS, build_encoder
from spanlab.encoder.config import EncoderConfig, SpanBoundaryConfig
from spanlab.encoder.elmo.character_cnn import CHARACTERS
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.encoder.elmo.model import ElmoEncoder
from spanlab.encoder.heads import (
    AnswerHead,
    BidirectionalLMHead,
    CausalLMHead,
    MaskedLMHead,
    PermutationLMHead,
    ReplacedTokenHead,
    SentencePairHead,
    SequenceHead,
    SpanBoundaryHead,
    TokenHead,
)
from spanlab.encoder.model import Encoder
from spanlab.encoder.pretrained import tensor_files
from spanlab.encoder.pretrained.checked_weights import build_with_weights, check_blocks
from spanlab.encoder.pretrained.config_json import (
    LAYOUTS,
    NATIVE_TYPES,
    check_keys,
    parse_config,
    parse_native_config,
    read_config_json,
    saved_class,
)
from spanlab.encoder.pretrained.locate import locate_model
from spanlab.encoder.pretrained.translate import State, encoder_rules, normalise, to_ours
from spanlab.encoder.pretrained.vocabulary import check_tokenizer_fits
from spanlab.errors import ConfigError, LoadWarning, MissingHeadError, WeightsError, did_you_mean
from spanlab.models import NAMES, bundled_folder
from spanlab.strict_parsing import read_json

HeadSettings = Mapping[str, Mapping[str, Any]]
"""By the name of a head: the options it was built with."""

FORMAT_VERSION = 1
"""The version of the folder layout that this SpanLab writes and the newest it reads."""

HEAD_PURPOSES = {
    "mlm": "fill masks",
    "clm": "generate text",
    "plm": "predict tokens in any order",
    "nsp": "judge the next sentence",
    "sop": "judge the order of sentences",
    "rtd": "detect replaced tokens",
    "sbo": "fill spans from their boundaries",
    "bilm": "predict words in both directions",
    "sequence": "label sequences",
    "token": "label tokens",
    "answer": "find answers",
}


@dataclass(frozen=True)
class LoadReport:
    """What a folder holds that was not used."""

    unexpected: tuple[str, ...] = ()
    """Weights that belong to no part of the encoder or its heads, by their names in the file."""
    unknown_keys: tuple[str, ...] = ()
    """Keys of `config.json` that mean nothing to SpanLab."""


@dataclass(frozen=True)
class Model:
    """What a model folder holds, in memory."""

    encoder: Encoder
    heads: dict[str, nn.Module] = field(default_factory=dict)
    """By objective: mlm, clm, plm, bilm, nsp, sop, rtd, sbo; a fine-tuned folder's sequence, token or answer."""
    report: LoadReport = LoadReport()
    folder: Path | None = None
    tasks: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """By the name of a task: the weights of a head that transformers has no class for."""
    described: dict[str, Any] = field(default_factory=dict)
    """The mapping in `spanlab.json`, such as the labels of a fine-tuned model; empty for a foreign folder."""

    def head(self, name: str) -> nn.Module:
        """The head of an objective; without it, an error that says what the model cannot do."""
        if name in self.heads:
            return self.heads[name]
        where = f" in {self.folder}" if self.folder else ""
        has = ", ".join(self.heads) or "none"
        raise MissingHeadError(f"no {name} head{where} (it has {has}): the model cannot {HEAD_PURPOSES[name]}")


def load_model(folder_or_id: str | Path, *, revision: str | None = None) -> Model:
    """The encoder and heads of a model folder, a run folder, a name in `spanlab models` or a Hugging Face id."""
    folder = locate_model(folder_or_id, revision=revision)
    description = read_description(folder)
    if "base" in description:
        return _load_over_base(folder, description)
    mapping = read_config_json(folder)
    model_type = mapping.get("model_type")
    if not isinstance(model_type, str):
        fix = f"set it to the model's architecture, one of {', '.join(LAYOUTS)}"
        raise ConfigError("the key 'model_type' is missing", path=folder / "config.json", fix=fix)
    path = folder / "config.json"
    class_name = saved_class(mapping, path)
    if model_type not in LAYOUTS:
        return _load_native_or_foreign(folder, mapping)
    described = description
    config = parse_config(mapping, path)
    training = described.get("training", {})
    config = from_mapping(EncoderConfig, {**to_mapping(config), **training}, Source(path=str(folder / "spanlab.json")))
    check_tokenizer_fits(folder, config.vocab_size)
    extra, tasks = _read_extra_weights(folder)
    settings = described.get("head_settings", {})
    model = assemble(config, tensor_files.read_folder(folder), extra, folder, settings, class_name)
    unknown = check_keys(mapping, LAYOUTS[model_type])
    if unknown:
        keys = ", ".join(unknown[:8]) + (f" and {len(unknown) - 8} more" if len(unknown) > 8 else "")
        warnings.warn(LoadWarning(f"{path}: ignored, since SpanLab does not know them: {keys}"), stacklevel=2)
    return replace(model, tasks=tasks, described=described, report=replace(model.report, unknown_keys=unknown))


@dataclass(frozen=True, kw_only=True)
class BaseModel:
    """The model in the box whose encoder the heads and adapters of a folder are for: `base` in `spanlab.json`."""

    name: str
    sha256: str
    """Of its `model.safetensors`."""

    def find(self, path: Path) -> Path:
        """Its folder; raises, with the `path` that names it, if it is another model, or not installed."""
        if self.name not in NAMES:
            cause = f"'base' is '{self.name}'{did_you_mean(self.name, NAMES)}, no model of `spanlab models`"
            raise ConfigError(cause, path=path, fix="use a SpanLab that has it")
        folder = bundled_folder(self.name)
        weights = folder / tensor_files.SINGLE_FILES[0]
        if not weights.is_file() or sha256_of(weights) != self.sha256:
            cause = f"its heads were trained with other weights than those of {folder}"
            raise ConfigError(cause, path=path, fix=f"use the SpanLab whose {self.name} it was trained with")
        return folder


def base_of(folder: Path) -> Path | None:
    """The folder that holds the encoder of a folder with heads and adapters alone; None if it has its own."""
    described = read_description(folder)
    if "base" not in described:
        return None
    path = folder / "spanlab.json"
    return from_mapping(BaseModel, described["base"], Source(path=str(path))).find(path)


def _load_over_base(folder: Path, described: dict[str, Any]) -> Model:
    """The encoder of a model in the box, with the heads and adapters in a folder."""
    base = base_of(folder)
    assert base is not None, folder
    if "base" in read_description(base):
        cause = "its base has no encoder of its own"
        raise ConfigError(cause, path=folder / "spanlab.json", fix="restore the file")
    model = load_model(base)
    check_tokenizer_fits(folder, model.encoder.config.vocab_size)
    _, tasks = _read_extra_weights(folder)
    return replace(model, tasks=tasks, described=described, folder=folder)


def _load_native_or_foreign(folder: Path, mapping: Mapping[str, Any]) -> Model:
    """A folder in our own layout, or one whose encoder transformers computes; heads are under our names in both."""
    if mapping["model_type"] in NATIVE_TYPES:
        config = parse_native_config(mapping, folder / "config.json")
        check_tokenizer_fits(folder, config.vocab_size)
        state = tensor_files.read_folder(folder)
        check_blocks(config.layers if isinstance(config, ElmoConfig) else _block_count(config), state, folder)
        encoder = build_with_weights(partial(build_encoder, config), state, folder)
        _check_characters(encoder, folder)
        unexpected = tuple(sorted(set(state) - set(encoder.state_dict())))
    else:
        from spanlab.encoder.transformers_encoder import TransformersEncoder

        encoder, unexpected = TransformersEncoder.load(folder)
        check_tokenizer_fits(folder, encoder.config.vocab_size)
    described = read_description(folder)
    extra, tasks = _read_extra_weights(folder)
    heads = _extra_heads(extra, encoder.config, folder, described.get("head_settings", {}))
    if "clm" in described.get("heads", ()) and "clm" not in heads:  # the word table itself, without a tensor
        heads["clm"] = _build_head("clm", encoder.config, {}, folder)
    return Model(encoder, heads, LoadReport(unexpected), folder, tasks, described)


def _block_count(config: EncoderConfig) -> int:
    return config.groups * config.inner_layers


def _check_characters(encoder: Encoder, folder: Path) -> None:
    """Raise where ELMo's table of characters holds others than there are."""
    characters = encoder.characters if isinstance(encoder, ElmoEncoder) else None
    if characters is not None and (int(characters.min()) < 0 or int(characters.max()) >= CHARACTERS):
        raise WeightsError(f"weight 'characters' must lie between 0 and {CHARACTERS - 1}", path=folder)


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
    layout = ARCHITECTURES[config.architecture].hugging_face
    assert layout is not None, config.architecture
    tensors = normalise(theirs, layout)
    check_blocks(_block_count(config), [*tensors, *extra], folder)
    state, used = to_ours(tensors, encoder_rules(layout, config), folder)
    state |= {name.removeprefix("encoder."): t for name, t in extra.items() if name.startswith("encoder.")}
    config = replace(config, pooler="pooler.weight" in state)
    encoder = build_with_weights(partial(build_encoder, config), state, folder)
    heads: dict[str, nn.Module] = {}
    for name, rules in layout.heads.items():
        if name in TASK_HEADS and (class_name, (name,)) not in layout.classes:
            continue
        head_state, used_by_head = to_ours(tensors, rules, folder)
        used |= used_by_head
        if _is_tied(head_state.get("decoder"), encoder):
            head_state.pop("decoder", None)
        # What the class does not hold of a head: all of it, or the MLM head's vectors for collapsed spans.
        of_head = [key for key in extra if key.startswith(f"{name}.")]
        head_state |= {key.removeprefix(f"{name}."): extra[key] for key in of_head}
        # GPT's head is the word table itself: it needs no tensor.
        if head_state or name == "clm":
            heads[name] = _build_head(name, config, head_state, folder)
    extra = {key: tensor for key, tensor in extra.items() if not key.startswith(tuple(f"{name}." for name in heads))}
    heads |= _extra_heads(extra, config, folder, settings)
    return Model(encoder, heads, LoadReport(tuple(sorted(set(tensors) - used))), folder)


def _extra_heads(
    extra: State, config: EncoderConfig, folder: Path | None, settings: HeadSettings
) -> dict[str, nn.Module]:
    """The heads whose weights are under our own names, each with its objective as a prefix."""
    heads: dict[str, nn.Module] = {}
    for name in sorted({key.split(".")[0] for key in extra} - {"encoder"}):
        state = {key.removeprefix(f"{name}."): value for key, value in extra.items() if key.startswith(f"{name}.")}
        heads[name] = _build_head(name, config, state, folder, settings.get(name, {}))
    return heads


def _is_tied(decoder: Tensor | None, encoder: Encoder) -> bool:
    table = encoder.word_table
    return decoder is not None and decoder.shape == table.shape and torch.equal(decoder, table)


def _build_head(
    name: str, config: EncoderConfig, state: State, folder: Path | None, settings: Mapping[str, Any] | None = None
) -> nn.Module:
    tied = "decoder" not in state
    constructors: dict[str, Callable[[], nn.Module]] = {
        "mlm": partial(MaskedLMHead, config, tied=tied, offsets=_offset_count(state)),
        "clm": partial(CausalLMHead, config, tied=tied),
        "plm": partial(PermutationLMHead, config, tied=tied),
        "bilm": partial(BidirectionalLMHead, config),
        "nsp": partial(SentencePairHead, config),
        "sop": partial(SentencePairHead, config),
        "rtd": partial(ReplacedTokenHead, config),
        "sbo": partial(_span_boundary_head, config, state, settings or {}, folder),
        "sequence": partial(SequenceHead, config, _label_count(state)),
        "token": partial(TokenHead, config, _label_count(state)),
        "answer": partial(AnswerHead, config),
    }
    if name not in constructors:
        raise WeightsError(f"unknown head '{name}'{did_you_mean(name, HEAD_PURPOSES)}", path=folder)
    return build_with_weights(constructors[name], state, folder, part=f"{name}.")


def _label_count(state: State) -> int:
    """The number of labels follows from the weights; where they are missing, it is reported later."""
    weight = state.get("classifier.weight")
    return 1 if weight is None or not weight.dim() else max(1, len(weight))


def _offset_count(state: State) -> int:
    """The tokens of a collapsed span that an MLM head tells apart."""
    table = state.get("offset.weight")
    return 0 if table is None or table.dim() != 2 else len(table)


def _span_boundary_head(
    config: EncoderConfig, state: State, settings: Mapping[str, Any], folder: Path | None
) -> SpanBoundaryHead:
    """A file without settings is a published one: they follow from the shapes of its weights."""
    position, dense_in = state.get("position.weight"), state.get("dense_in.weight")
    shape = {}
    if position is not None and position.dim() == 2:
        shape = {"max_span": position.shape[0], "position_width": position.shape[1]}
    width = config.width + shape.get("position_width", 0)
    combine = "sum" if dense_in is not None and dense_in.shape[1:] == (width,) else "concat"
    options = {"max_span": None, **shape, "combine": combine, **settings}
    source = Source(path=str(folder / "spanlab.json") if folder else None)
    boundary = from_mapping(SpanBoundaryConfig, options, source)
    return SpanBoundaryHead(config.width, config.vocab_size, table_width=config.table_width, **vars(boundary))


def _read_extra_weights(folder: Path) -> tuple[State, dict[str, State]]:
    """The weights under our own names: those of the encoder and its pre-training heads, and by name those of tasks."""
    path = folder / "heads.safetensors"
    state = tensor_files.read_file(path) if path.is_file() else {}
    tasks: dict[str, State] = {}
    for name in [name for name in state if name.startswith("tasks.")]:
        _, task, weight = (*name.split(".", 2), "", "")[:3]
        if not task or not weight:
            raise WeightsError(f"'{name}' names no weight of a task", path=path, fix="expected tasks.NAME.WEIGHT")
        tasks.setdefault(task, {})[weight] = state.pop(name)
    return state, tasks


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What `spanlab.json` says about an encoder and its pre-training heads."""

    format_version: Annotated[int, AtLeast(1)]
    system: str | None = None
    heads: tuple[str, ...] = ()
    head_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    """Fields of the EncoderConfig that `config.json` has no key for."""


def read_description(folder: Path) -> dict[str, Any]:
    """The mapping in `spanlab.json`, such as the training settings of the encoder; empty for a foreign folder.

    The keys of tasks are not checked here.
    """
    path = folder / "spanlab.json"
    if not path.is_file():
        return {}
    described = read_json(path, error=ConfigError)
    if not isinstance(described, dict):
        raise ConfigError("expected a JSON object", path=path)
    known = {name.name for name in fields(_Description)}
    about = {name: value for name, value in described.items() if name in known}
    version = from_mapping(_Description, about, Source(path=str(path))).format_version
    if version > FORMAT_VERSION:
        raise ConfigError(f"format {version} is newer than this SpanLab reads ({FORMAT_VERSION})", path=path)
    return described
