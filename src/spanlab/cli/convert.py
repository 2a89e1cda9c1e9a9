"""`spanlab convert`: foreign checkpoints to a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.output import note, print_json
from spanlab.errors import InputError


def convert(
    source: Annotated[str, typer.Argument(help="SpanBERT's pre-training file, a model folder, or a hub id.")],
    out: Annotated[Path, typer.Option("--out", help="The model folder to write.")],
    tokenizer: Annotated[Path | None, typer.Option(help="A folder with the tokenizer files to put beside.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Turn a foreign checkpoint into a model folder with safetensors.

    Reads SpanBERT's own pre-training file (encoder, MLM and span boundary heads), and any Hugging Face folder of the
    family, .bin files included; nothing in them is ever executed.

    Example: spanlab convert checkpoint_best.pt --out spanbert-large --tokenizer vocab-folder
    """
    from spanlab.encoder.pretrained import load_model, locate_model, save_model
    from spanlab.encoder.pretrained.spanbert_release import read_spanbert_release

    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not overwrite:
        raise InputError("is there already and is not empty", path=out, fix="choose another --out, or --overwrite")
    if tokenizer is not None and not tokenizer.is_dir():
        raise InputError("no such tokenizer folder", path=tokenizer)
    if Path(source).is_file():
        model = read_spanbert_release(Path(source))
    else:
        folder = locate_model(source)
        model = load_model(folder)
        tokenizer = tokenizer or folder
    save_model(out, model.encoder, model.heads, tokenizer_folder=tokenizer)
    if as_json:
        print_json({"folder": str(out), "heads": sorted(model.heads), "unexpected": list(model.report.unexpected)})
        return
    typer.echo(f"{out}: {model.encoder.config.architecture}, heads {', '.join(sorted(model.heads)) or 'none'}")
    for name in model.report.unexpected:
        note(f"left out, belongs to nothing here: {name}")
