"""Saving: an encoder with its heads in, a model folder out that transformers and SpanLab load.

An encoder that no transformers class can hold is saved under our own names, and its `config.json` says so. A
`TransformersEncoder` is saved by transformers, with our heads beside it.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import nn

from spanlab.atomic_io import follow_umask, write_atomically, write_json
from spanlab.config import to_mapping
from spanlab.encoder.architectures import HuggingFaceLayout
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.heads import SpanBoundaryHead
from spanlab.encoder.model import Encoder
from spanlab.encoder.pretrained import tensor_files
from spanlab.encoder.pretrained.config_json import (
    LAYOUTS,
    config_json,
    is_expressible,
    native_config_json,
    unwritten_settings,
)
from spanlab.encoder.pretrained.load import FORMAT_VERSION
from spanlab.encoder.pretrained.translate import State, encoder_rules, to_theirs
from spanlab.encoder.transformers_encoder import TransformersEncoder, quiet_transformers
from spanlab.errors import InputError
from spanlab.version import __version__

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
)


def save_model(
    folder: str | Path,
    encoder: Encoder,
    heads: Mapping[str, nn.Module] | None = None,
    *,
    system: str | None = None,
    tokenizer_folder: Path | None = None,
    tasks: Mapping[str, nn.Module] = MappingProxyType({}),
    described: Mapping[str, Any] = MappingProxyType({}),
    config_keys: Mapping[str, Any] = MappingProxyType({}),
    compact: bool = False,
) -> None:
    """Write a model folder; other files in it are not touched.

    Args:
        folder: created if missing.
        encoder: of any class.
        heads: by objective, or one of sequence, token and answer.
        system: the name in `spanlab.json`; by default the architecture.
        tokenizer_folder: whose tokenizer files are copied into the folder.
        tasks: by name, heads that transformers has no class for.
        described: further keys of `spanlab.json`.
        config_keys: further keys of `config.json`, such as the names of labels.
        compact: write matrices as int8, a quarter of the size, for SpanLab alone.
    """
    folder, heads = Path(folder), heads or {}
    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file; a model is a folder", path=folder)
    folder.mkdir(parents=True, exist_ok=True)
    description = mark_compact({**_description(encoder.config, system, heads), **described}, compact=compact)
    task_weights = {f"tasks.{name}": value for name, value in head_state(tasks, tasks).items()}
    if compact:
        refuse_compact(encoder)
    if isinstance(encoder, TransformersEncoder):
        with quiet_transformers():
            encoder.model.save_pretrained(folder)
        for weights in folder.glob("*.safetensors"):
            follow_umask(weights)
        _write_extra(folder, {**head_state(heads, heads), **task_weights}, description)
    else:
        main, extra, config = _parts(encoder, heads)
        # config.json goes last: a folder without it is no model folder, so an interrupted first write is noticed.
        tensor_files.write_file(folder / "model.safetensors", main, compact=compact)
        _write_extra(folder, {**extra, **task_weights}, description, compact=compact)
        write_json(folder / "config.json", {**config, **config_keys})
    if tokenizer_folder is not None:
        copy_tokenizer(tokenizer_folder, folder)


def refuse_compact(encoder: Encoder) -> None:
    """Raise at an encoder whose weights SpanLab does not read itself."""
    if isinstance(encoder, TransformersEncoder):
        cause = "transformers computes this model, and cannot read compact weights"
        raise InputError(cause, fix="leave out --compact")


def mark_compact(description: Mapping[str, Any], *, compact: bool) -> dict[str, Any]:
    """What `spanlab.json` says, with a note of the form of the weights, for people: the weight files say it, too."""
    others = {key: value for key, value in description.items() if key != "weights"}
    return {**others, "weights": "int8"} if compact else others


def _parts(encoder: Encoder, heads: Mapping[str, nn.Module]) -> tuple[State, State, dict[str, Any]]:
    """What goes into `model.safetensors`, `heads.safetensors` and `config.json`."""
    if not is_expressible(encoder.config):
        return dict(encoder.state_dict()), head_state(heads, heads), native_config_json(encoder.full_config)
    layout = LAYOUTS[encoder.config.architecture]
    class_name, held = layout.class_for(frozenset(heads))
    main, extra = split_state(layout, class_name, held, encoder, heads)
    dtype = str(encoder.word_table.dtype).removeprefix("torch.")
    config = config_json(encoder.config, class_name, torch_dtype=dtype)
    return main, extra, {**config, "tie_word_embeddings": not is_untied(heads, held)}


def class_of(encoder: Encoder, head: str) -> str | None:
    """The transformers class that this encoder with one `head` is saved as; None where there is none."""
    if isinstance(encoder, TransformersEncoder) or not is_expressible(encoder.config):
        return None
    return next((name for name, held in LAYOUTS[encoder.config.architecture].classes if held == (head,)), None)


def split_state(
    layout: HuggingFaceLayout,
    class_name: str,
    held: tuple[str, ...],
    encoder: Encoder,
    heads: Mapping[str, nn.Module],
) -> tuple[State, State]:
    """The weights that the transformers class holds, under its names, and the rest under ours."""
    state = encoder.state_dict()
    theirs, used = to_theirs(state, encoder_rules(layout, encoder.config), heads=encoder.config.heads)
    # An architecture without a pooler of its own has no rule for one; pairs train it nevertheless.
    lost = {name for name in state if not name.startswith("pooler.")} - used
    assert not lost, lost
    extra = head_state(heads, set(heads) - set(held))
    if not (class_name in layout.classes_with_pooler if held else layout.bare_class_has_pooler):
        pooler, _ = to_theirs(state, [rule for rule in layout.encoder if rule.ours == "pooler"])
        theirs = {name: tensor for name, tensor in theirs.items() if name not in pooler}
        extra |= {f"encoder.{name}": tensor for name, tensor in state.items() if name.startswith("pooler.")}
    main = {layout.prefix + name: tensor for name, tensor in theirs.items()} if held else theirs
    for name in held:
        state = heads[name].state_dict()
        theirs, used = to_theirs(state, layout.heads[name])
        main |= theirs
        extra |= {f"{name}.{key}": tensor for key, tensor in state.items() if key not in used}
    if layout.twin_bias is not None and is_untied(heads, held):
        main[layout.twin_bias[0]] = main[layout.twin_bias[1]].clone()
    return main, extra


def is_untied(heads: Mapping[str, nn.Module], held: tuple[str, ...]) -> bool:
    """Whether a head that the class holds has an output matrix of its own."""
    return any(getattr(heads[name], "decoder", None) is not None for name in held)


def head_state(heads: Mapping[str, nn.Module], names: Mapping[str, nn.Module] | set[str]) -> State:
    """The weights of the named heads, each under its objective as a prefix."""
    return {f"{name}.{key}": tensor for name in sorted(names) for key, tensor in heads[name].state_dict().items()}


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy the tokenizer files of one folder into another."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file() and source.resolve() != folder.resolve():
            write_atomically(folder / name, (source / name).read_bytes())


def _description(config: EncoderConfig, system: str | None, heads: Mapping[str, nn.Module]) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "spanlab": __version__,
        "system": system or config.architecture,
        "heads": sorted(heads),
        "head_settings": {
            name: to_mapping(head.config) for name, head in heads.items() if isinstance(head, SpanBoundaryHead)
        },
        "training": unwritten_settings(config),
    }


def _write_extra(folder: Path, extra: State, description: dict[str, Any], *, compact: bool = False) -> None:
    """The files that transformers does not have: `heads.safetensors` and `spanlab.json`."""
    if extra:
        tensor_files.write_file(folder / "heads.safetensors", extra, compact=compact)
    else:
        (folder / "heads.safetensors").unlink(missing_ok=True)
    write_json(folder / "spanlab.json", description)
