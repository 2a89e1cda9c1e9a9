"""`spanlab convert`: checkpoints of other programs to a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.atomic_io import check_new_folder, staged_folder
from spanlab.cli.options import QuietOption
from spanlab.cli.output import note, print_json
from spanlab.cli.progress import InputProgress
from spanlab.errors import InputError, did_you_mean
from spanlab.models import NAMES, WHAT_A_MODEL_IS


def convert(
    source: Annotated[str, typer.Argument(help=f"SpanBERT's fairseq checkpoint, or {WHAT_A_MODEL_IS}.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.")],
    tokenizer: Annotated[Path | None, typer.Option(help="Folder with the tokenizer files to copy.")] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Write matrices as int8, a quarter of the size, for SpanLab alone.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Write only the tasks that were added to this model of `spanlab models`."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Convert a checkpoint of another program to a model folder with safetensors, or a model to compact weights.

    Reads SpanBERT's fairseq checkpoint (encoder, MLM and span boundary heads) and any Hugging Face folder of a
    supported architecture, .bin files included; nothing in them is ever executed.

    With --compact, matrices are int8 with a scale for each row. Every command reads such a folder; transformers does
    not: converting it without --compact writes fp32 again.

    With --base, heads and adapters that finetune --add has added to a model in the box are written, matrices as int8,
    without its encoder: a few megabytes, which work wherever that model is installed.

    Examples:
      spanlab convert checkpoint_best.pt --out spanbert-large --tokenizer vocab-folder
      spanlab convert runs/legal --compact --out legal-small
      spanlab convert runs/added --base minilm --out my-tasks
    """
    from spanlab.encoder.pretrained import locate_model, save_model
    from spanlab.encoder.pretrained.convert import convert_folder
    from spanlab.encoder.pretrained.spanbert_release import read_spanbert_release

    check_new_folder(out, overwrite=overwrite)
    if base is not None:
        _check_base(base, source, compact=compact)
    if tokenizer is not None and not tokenizer.is_dir():
        raise InputError("no such tokenizer folder", path=tokenizer)
    with InputProgress("convert", None, quiet=quiet) as progress:
        progress.begin("reading")
        if Path(source).is_file():
            model = read_spanbert_release(Path(source))
            progress.begin("writing")
            with staged_folder(out) as new:
                save_model(new, model.encoder, model.heads, tokenizer_folder=tokenizer, compact=compact)
        else:
            model = convert_folder(
                locate_model(source),
                out,
                tokenizer_folder=tokenizer,
                compact=compact,
                base=base,
                on_writing=lambda: progress.begin("writing"),
            )
    if as_json:
        print_json({"folder": str(out), "heads": sorted(model.heads), "unexpected": list(model.report.unexpected)})
        return
    typer.echo(f"{out}: {model.encoder.config.architecture}, heads {', '.join(sorted(model.heads)) or 'none'}")
    for name in model.report.unexpected:
        note(f"ignored, belongs to no part of the model: {name}")


def _check_base(base: str, source: str, *, compact: bool) -> None:
    if base not in NAMES:
        cause = f"--base is a name of `spanlab models`, and '{base}'{did_you_mean(base, NAMES)} is none"
        raise InputError(cause, fix=f"use one of {', '.join(NAMES)}")
    if compact:
        raise InputError("--base writes compact weights by itself", fix="leave out --compact")
    if Path(source).is_file():
        raise InputError("--base is for tasks that were added to a model", path=source, fix="leave out --base")
