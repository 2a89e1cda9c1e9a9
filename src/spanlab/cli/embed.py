"""`spanlab embed`: texts to vectors."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.atomic_io import open_atomically
from spanlab.cli.options import (
    ColumnsOption,
    DeviceOption,
    ModelArgument,
    PrecisionOption,
    QuietOption,
    split_columns,
)
from spanlab.cli.output import note
from spanlab.cli.progress import InputProgress
from spanlab.errors import InputError


def embed(
    model: ModelArgument,
    output: Annotated[Path, typer.Option(help="NumPy file (.npy) to write, one row per text.")],
    source: Annotated[str, typer.Option("--input", help="File of texts; - reads JSON lines from stdin.")] = "-",
    columns: ColumnsOption = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens per batch.")] = 16384,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = None,
    quiet: QuietOption = False,
) -> None:
    """Write a unit vector for every text: the mean over its tokens. The dot product of two is their cosine similarity.

    Example: spanlab embed minilm --input texts.txt --output vectors.npy
    """
    import numpy as np

    from spanlab.inference.load import load
    from spanlab.tasks.classification import Classification
    from spanlab.tasks.examples import read_unlabelled

    if output.suffix != ".npy":
        raise InputError("vectors are written as .npy", path=output, fix="use a file name that ends in .npy")
    if output.exists() and not overwrite:
        raise InputError("file exists", path=output, fix="use --overwrite")
    texts = read_unlabelled(Classification, source, split_columns(columns))
    predictor = load(model, device=device, precision=precision)
    with InputProgress("embed", len(texts), quiet=quiet) as progress:
        vectors = predictor.encode(
            [example.text for example in texts.examples], batch_tokens=batch_tokens, progress=progress.advance
        )
    with open_atomically(output) as file:
        # np.save writes through a buffer of C's, which loses the error of a full disk.
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(vectors))
        file.write(np.ascontiguousarray(vectors).data)
    if not quiet:
        note(f"{output}: {vectors.shape[0]} vectors with {vectors.shape[1]} dimensions")
