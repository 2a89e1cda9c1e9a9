"""`spanlab convert`: checkpoints of other programs to a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.atomic_io import check_new_folder, staged_folder
from spanlab.cli.output import note, print_json
from spanlab.errors import InputError


def convert(
    source: Annotated[str, typer.Argument(help="SpanBERT's fairseq checkpoint, a model folder or a Hugging Face id.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.")],
    tokenizer: Annotated[Path | None, typer.Option(help="Folder with the tokenizer files to copy.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Convert a checkpoint of another program to a model folder with safetensors.

    Reads SpanBERT's fairseq checkpoint (encoder, MLM and span boundary heads) and any Hugging Face folder of a
    supported architecture, .bin files included; nothing in them is ever executed.

    Example: spanlab convert checkpoint_best.pt --out spanbert-large --tokenizer vocab-folder
    """
    from spanlab.encoder.pretrained import load_model, locate_model, save_model
    from spanlab.encoder.pretrained.spanbert_release import read_spanbert_release

    check_new_folder(out, overwrite=overwrite)
    if tokenizer is not None and not tokenizer.is_dir():
        raise InputError("no such tokenizer folder", path=tokenizer)
    if Path(source).is_file():
        model = read_spanbert_release(Path(source))
    else:
        folder = locate_model(source)
        model = load_model(folder)
        tokenizer = tokenizer or folder
    with staged_folder(out) as new:
        save_model(new, model.encoder, model.heads, tokenizer_folder=tokenizer)
    if as_json:
        print_json({"folder": str(out), "heads": sorted(model.heads), "unexpected": list(model.report.unexpected)})
        return
    typer.echo(f"{out}: {model.encoder.config.architecture}, heads {', '.join(sorted(model.heads)) or 'none'}")
    for name in model.report.unexpected:
        note(f"ignored, belongs to no part of the model: {name}")
