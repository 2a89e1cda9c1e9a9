"""A model folder out: it loads in transformers without a complaint, and here with everything it had.

An encoder that no transformers class can hold is saved under our own names, and its `config.json` says so. One that is
transformers' own is saved by transformers, with our heads beside it.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import nn

from spanlab.atomic_io import write_json
from spanlab.config import to_mapping
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.elmo.model import Elmo
from spanlab.encoder.heads import SpanBoundaryHead
from spanlab.encoder.model import Encoder
from spanlab.encoder.pretrained import config_json, tensor_files
from spanlab.encoder.pretrained.model import FORMAT_VERSION
from spanlab.encoder.pretrained.names import NAMES, Names
from spanlab.encoder.pretrained.translate import State, body_rules, to_theirs
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
) -> None:
    """Write a model folder; files that are not ours are left alone.

    Args:
        folder: made where it is missing.
        encoder: the model's body, of our own family or of transformers.
        heads: by objective, or one of sequence, token and answer.
        system: what the model is called; by default its architecture.
        tokenizer_folder: whose tokenizer files are put beside.
        tasks: by name, heads that transformers has no class for.
        described: what `spanlab.json` says besides.
        config_keys: what `config.json` says besides, such as the names of labels.
    """
    folder, heads = Path(folder), heads or {}
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file; a model is a folder", path=folder)
    folder.mkdir(parents=True, exist_ok=True)
    description = {**_description(encoder.config, system, heads), **described}
    task_weights = {f"tasks.{name}": value for name, value in head_state(tasks, tasks).items()}
    if isinstance(encoder, TransformersEncoder):
        with quiet_transformers():
            encoder.model.save_pretrained(folder)
        _write_ours(folder, {**head_state(heads, heads), **task_weights}, description)
    else:
        main, extra, written = _own_parts(encoder, heads)
        # config.json goes last: a folder without it is no model folder, so a first write that is cut off shows.
        tensor_files.write_file(folder / "model.safetensors", main)
        _write_ours(folder, {**extra, **task_weights}, description)
        write_json(folder / "config.json", {**written, **config_keys})
    if tokenizer_folder is not None:
        copy_tokenizer(tokenizer_folder, folder)


def _own_parts(encoder: Encoder, heads: Mapping[str, nn.Module]) -> tuple[State, State, dict[str, Any]]:
    """What goes into `model.safetensors`, `heads.safetensors` and `config.json`."""
    if isinstance(encoder, Elmo):
        return dict(encoder.state_dict()), head_state(heads, heads), config_json.elmo_config(encoder.shape)
    config, dtype = encoder.config, encoder.word_table.dtype
    if config_json.is_expressible(config):
        names = NAMES[config.architecture]
        class_name, held = names.class_for(frozenset(heads))
        main, extra = split_state(names, class_name, held, encoder, heads)
        written = config_json.write_config(config, class_name, torch_dtype=str(dtype).removeprefix("torch."))
        written["tie_word_embeddings"] = not is_untied(heads, held)
        return main, extra, written
    return dict(encoder.state_dict()), head_state(heads, heads), config_json.native_config(config)


def class_of(encoder: Encoder, head: str) -> str | None:
    """The transformers class that this encoder with one `head` is saved as; None where there is none."""
    config = encoder.config
    if isinstance(encoder, TransformersEncoder) or not config_json.is_expressible(config):
        return None
    return next((name for name, held in NAMES[config.architecture].classes if held == (head,)), None)


def split_state(
    names: Names, class_name: str, held: tuple[str, ...], encoder: Encoder, heads: Mapping[str, nn.Module]
) -> tuple[State, State]:
    """The weights that the transformers class holds, under its names, and the rest under ours."""
    body, used = to_theirs(encoder.state_dict(), tuple(body_rules(names, encoder.config)))
    assert used == set(encoder.state_dict()), set(encoder.state_dict()) - used
    extra = head_state(heads, set(heads) - set(held))
    if not (class_name in names.headed_pooler if held else names.bare_pooler):
        pooler_rule = tuple(rule for rule in names.body if rule.ours == "pooler")
        pooler, _ = to_theirs(encoder.state_dict(), pooler_rule)
        body = {name: tensor for name, tensor in body.items() if name not in pooler}
        extra.update({f"encoder.{k}": v for k, v in encoder.state_dict().items() if k.startswith("pooler.")})
    main = {names.prefix + name: tensor for name, tensor in body.items()} if held else body
    for name in held:
        main.update(to_theirs(heads[name].state_dict(), names.heads[name])[0])
    if names.twin_bias is not None and is_untied(heads, held):
        main[names.twin_bias[0]] = main[names.twin_bias[1]].clone()
    return main, extra


def is_untied(heads: Mapping[str, nn.Module], held: tuple[str, ...]) -> bool:
    """Whether a head that the class holds has an output matrix of its own."""
    return any(getattr(heads[name], "decoder", None) is not None for name in held)


def head_state(heads: Mapping[str, nn.Module], wanted: Mapping[str, nn.Module] | set[str]) -> State:
    """The weights of the wanted heads, each name led by its objective."""
    return {f"{name}.{key}": tensor for name in sorted(wanted) for key, tensor in heads[name].state_dict().items()}


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy the tokenizer files of one folder beside the model in another."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file() and source.resolve() != folder.resolve():
            shutil.copyfile(source / name, folder / name)


def _description(config: EncoderConfig, system: str | None, heads: Mapping[str, nn.Module]) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "spanlab": __version__,
        "system": system or config.architecture,
        "heads": sorted(heads),
        "head_settings": {
            name: to_mapping(head.config) for name, head in heads.items() if isinstance(head, SpanBoundaryHead)
        },
        "training": config_json.training_settings(config),
    }


def _write_ours(folder: Path, extra: State, description: dict[str, Any]) -> None:
    """What transformers has no file for."""
    if extra:
        tensor_files.write_file(folder / "heads.safetensors", extra)
    else:
        (folder / "heads.safetensors").unlink(missing_ok=True)
    write_json(folder / "spanlab.json", description)
