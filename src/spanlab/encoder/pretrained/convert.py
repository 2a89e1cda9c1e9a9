"""A model folder in, a model folder out: foreign weights under SpanLab's files, or weights in another form.

A folder that SpanLab wrote keeps all it says (tasks, labels, system): its weights are read and written, and the rest is
copied. Any other is loaded and saved.
"""

from pathlib import Path

from spanlab.atomic_io import staged_folder, write_atomically, write_json
from spanlab.encoder.pretrained import tensor_files
from spanlab.encoder.pretrained.load import Model, load_model
from spanlab.encoder.pretrained.save import copy_tokenizer, mark_compact, refuse_compact, save_model
from spanlab.encoder.transformers_encoder import TransformersEncoder
from spanlab.strict_parsing import read_json

_CARD = "README.md"


def convert_folder(source: Path, out: Path, *, tokenizer_folder: Path | None = None, compact: bool = False) -> Model:
    """Write the model of `source` to `out`, whole or not at all; what was loaded.

    Args:
        source: a model folder of any program.
        out: created if missing; a card that is there stays.
        tokenizer_folder: whose tokenizer files are copied; by default those of `source`.
        compact: write matrices as int8, a quarter of the size.
    """
    model = load_model(source)
    if compact:
        refuse_compact(model.encoder)
    with staged_folder(out) as new:
        if model.described and not isinstance(model.encoder, TransformersEncoder):
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
    tensor_files.write_file(new / "model.safetensors", tensor_files.read_folder(source), compact=compact)
    if (source / "heads.safetensors").is_file():
        heads = tensor_files.read_file(source / "heads.safetensors")
        tensor_files.write_file(new / "heads.safetensors", heads, compact=compact)
    write_json(new / "spanlab.json", mark_compact(read_json(source / "spanlab.json"), compact=compact))
    write_atomically(new / "config.json", (source / "config.json").read_bytes())
