"""A model folder in, a model folder out: foreign weights under SpanLab's files, or weights in another form.

A folder that SpanLab wrote keeps all it says (tasks, labels, system): its weights are read and written, and the rest is
copied. Any other is loaded and saved. Tasks that were added to a model in the box can be written without the encoder,
which is that model's: a few megabytes, with matrices as int8.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from spanlab.atomic_io import sha256_of, staged_folder, write_atomically, write_json
from spanlab.config import to_mapping
from spanlab.encoder.pretrained import tensor_files
from spanlab.encoder.pretrained.load import BaseModel, Model, base_of, load_model
from spanlab.encoder.pretrained.save import copy_tokenizer, mark_compact, refuse_compact, save_model
from spanlab.encoder.transformers_encoder import TransformersEncoder
from spanlab.errors import InputError
from spanlab.models import bundled_folder
from spanlab.strict_parsing import read_json

_CARD = "README.md"


def convert_folder(
    source: Path,
    out: Path,
    *,
    tokenizer_folder: Path | None = None,
    compact: bool = False,
    base: str | None = None,
    on_writing: Callable[[], None] = lambda: None,
) -> Model:
    """Write the model of `source` to `out`, whole or not at all; what was loaded.

    Args:
        source: a model folder of any program.
        out: created if missing; a card that is there stays.
        tokenizer_folder: whose tokenizer files are copied; by default those of `source`.
        compact: write matrices as int8, a quarter of the size.
        base: write only heads and adapters; the encoder is that of this model in the box.
        on_writing: is called when the model is read, before it is written.
    """
    model = load_model(source)
    if compact:
        refuse_compact(model.encoder)
    on_writing()
    with staged_folder(out) as new:
        if base is not None:
            _write_over_base(model, source, new, base)
        elif model.described and not isinstance(model.encoder, TransformersEncoder):
            _rewrite(source, new, compact=compact)
            if (source / "generator").is_dir():  # of an ELECTRA
                load_model(source / "generator")
                _rewrite(source / "generator", new / "generator", compact=compact)
        else:
            save_model(new, model.encoder, model.heads, compact=compact)
        copy_tokenizer(tokenizer_folder or source, new)
        if (source / _CARD).is_file() and not (out / _CARD).exists():
            write_atomically(new / _CARD, (source / _CARD).read_bytes())
        has_heads = (new / "heads.safetensors").exists()
    if not has_heads:  # of a model that was in `out` before
        (out / "heads.safetensors").unlink(missing_ok=True)
    return model


def _rewrite(source: Path, new: Path, *, compact: bool) -> None:
    """The weights of a folder of SpanLab's in the form asked for, and what it says of them."""
    new.mkdir(exist_ok=True)
    base = base_of(source)
    tensor_files.write_file(new / "model.safetensors", tensor_files.read_folder(base or source), compact=compact)
    described = {key: value for key, value in read_json(source / "spanlab.json").items() if key != "base"}
    if (source / "heads.safetensors").is_file():
        heads = tensor_files.read_file(source / "heads.safetensors")
        tensor_files.write_file(new / "heads.safetensors", heads, compact=compact)
    write_json(new / "spanlab.json", mark_compact(described, compact=compact))
    write_atomically(new / "config.json", (source / "config.json").read_bytes())


def _write_over_base(model: Model, source: Path, new: Path, base: str) -> None:
    """The tasks of a model in compact form, with the name of the model in the box that they were added to."""
    folder = bundled_folder(base)
    weights = folder / tensor_files.SINGLE_FILES[0]
    theirs, ours = load_model(folder).encoder.state_dict(), model.encoder.state_dict()
    if theirs.keys() != ours.keys() or not all(torch.equal(theirs[name], ours[name]) for name in theirs):
        cause = f"its encoder is not that of {base}, so its heads cannot do without it"
        raise InputError(cause, path=source, fix=f"add tasks with spanlab finetune TASK --model {base} --add")
    if not model.tasks:
        raise InputError("the model has no tasks with weights of their own", path=source, fix="leave out --base")
    heads = {
        f"tasks.{task}.{name}": tensor for task, tensors in model.tasks.items() for name, tensor in tensors.items()
    }
    new.mkdir(exist_ok=True)
    tensor_files.write_file(new / "heads.safetensors", heads, compact=True)
    described = {
        **mark_compact(model.described, compact=True),
        "base": to_mapping(BaseModel(name=base, sha256=sha256_of(weights))),
    }
    write_json(new / "spanlab.json", described)
    write_atomically(new / "config.json", (source / "config.json").read_bytes())
