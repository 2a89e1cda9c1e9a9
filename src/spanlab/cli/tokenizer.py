"""`spanlab tokenizer`: train a vocabulary from text files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spanlab.atomic_io import check_new_folder
from spanlab.cli.options import QuietOption
from spanlab.cli.output import print_json, print_table
from spanlab.cli.progress import InputProgress

if TYPE_CHECKING:
    from spanlab.text import Tokenizer

app = typer.Typer(no_args_is_help=True, help="Train tokenizers.")


@app.callback()
def _group() -> None:
    """Train tokenizers."""


@app.command("train")
def train(
    files: Annotated[list[Path], typer.Argument(help="Plain text files (UTF-8).", show_default=False)],
    tokenizer_type: Annotated[
        Literal["wordpiece", "bpe", "unigram", "word"], typer.Option("--type", help="Type of the tokenizer.")
    ],
    vocab_size: Annotated[int, typer.Option(help="Size of the vocabulary, special tokens included.")],
    out: Annotated[Path, typer.Option("--out", help="Output folder.")],
    system: Annotated[
        Literal["bert", "roberta", "albert", "xlnet", "gpt", "elmo"] | None,
        typer.Option(
            help="System whose special tokens are used; by default that of the type: bert, roberta, albert, elmo."
        ),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Convert text to lower case.")] = False,
    strip_accents: Annotated[
        bool | None,
        typer.Option(
            "--strip-accents/--keep-accents",
            help="By default accents are stripped with --lowercase.",
            show_default=False,
        ),
    ] = None,
    split_chinese: Annotated[
        bool, typer.Option("--split-chinese/--join-chinese", help="Each Chinese character is a word (wordpiece, word).")
    ] = True,
    min_frequency: Annotated[
        int | None, typer.Option(help="Minimum count of a pair or word; 2, for unigram 1.", show_default=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a tokenizer on text files of any size; the same files give the same tokenizer.

    The folder has the Hugging Face layout and loads in transformers with the same ids.

    Example: spanlab tokenizer train novels/*.txt --type wordpiece --vocab-size 30000 --out tokenizer
    """
    from spanlab.text.plain_files import open_plain_files
    from spanlab.text.train import TokenizerConfig, train_tokenizer

    check_new_folder(out, overwrite=overwrite)
    config = TokenizerConfig(
        kind=tokenizer_type,
        vocab_size=vocab_size,
        system=system,
        lowercase=lowercase,
        strip_accents=strip_accents,
        split_chinese=split_chinese,
        min_frequency=min_frequency,
    )
    with InputProgress("tokenizer train", None, unit="MB", quiet=quiet) as progress:
        reading = _Reading(progress)
        texts = open_plain_files(files, reading.advance)
        reading.size = texts.size
        tokenizer = train_tokenizer(texts, config)
    tokenizer.save(out)
    _print_result(tokenizer, out, as_json=as_json)


def _print_result(tokenizer: "Tokenizer", out: Path, *, as_json: bool) -> None:
    result = {
        "folder": str(out),
        "type": tokenizer.kind,
        "system": tokenizer.system,
        "vocab_size": tokenizer.vocab_size,
        "lower_cases": tokenizer.lower_cases,
        "fingerprint": tokenizer.fingerprint,
    }
    if as_json:
        print_json(result)
    else:
        print_table((name, str(value)) for name, value in result.items())


class _Reading:
    """Tells a progress display of the bytes that are read; the files may be read twice."""

    def __init__(self, progress: InputProgress) -> None:
        self._progress = progress
        self.size = self._read = 0

    def advance(self, size: int) -> None:
        """Add bytes; after all of them the vocabulary is trained."""
        if self._read % self.size == 0:
            self._progress.begin("reading", self.size / 1e6)
        self._read += size
        self._progress.advance(size / 1e6)
        if self._read % self.size == 0:
            self._progress.begin("training the vocabulary")
