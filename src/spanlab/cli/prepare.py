"""`spanlab prepare`: raw text to a prepared corpus."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spanlab.cli.options import QuietOption
from spanlab.cli.output import note, print_json, print_table
from spanlab.cli.progress import InputProgress
from spanlab.models import NAMES

if TYPE_CHECKING:
    from spanlab.corpus.manifest import Manifest
    from spanlab.corpus.prepare.plan import Plan
    from spanlab.text import Tokenizer

_DOCUMENTS = {
    "file": "each file is a document",
    "blank-line": "blank lines separate documents",
    "line": "each line is a document",
}
_LINES = {
    "wrapped": "a line break is a space, a blank line ends a paragraph",
    "sentences": "each line is a sentence",
    "paragraphs": "each line is a paragraph",
}


def prepare(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files (.txt, .jsonl, .csv, .parquet, each also .gz, .xz, .zst), folders, patterns, URLs, "
            "- for standard input, or datasets:NAME[:CONFIG][:SPLIT]."
        ),
    ],
    tokenizer: Annotated[
        str, typer.Option(help=f"Folder or file of the tokenizer, or a model's: {', '.join(NAMES)}.", metavar="PATH")
    ],
    out: Annotated[
        str,
        typer.Option(
            help="Folder of the corpus, or its URL, such as s3://bucket/corpus; an interrupted preparation is resumed.",
            metavar="PATH",
        ),
    ],
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes.", show_default="the cores")] = None,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Where the workers run.")] = "local",
    text_field: Annotated[str, typer.Option(help="Key or column of the text.")] = "text",
    documents: Annotated[
        Literal["file", "blank-line", "line"] | None,
        typer.Option(help="What separates the documents of a .txt file.", show_default="detected"),
    ] = None,
    lines: Annotated[
        Literal["wrapped", "sentences", "paragraphs"] | None,
        typer.Option(help="What a line break means inside a document.", show_default="detected"),
    ] = None,
    errors: Annotated[
        Literal["strict", "replace"], typer.Option(help="Bytes that are not UTF-8: stop, or replace and count them.")
    ] = "strict",
    file_format: Annotated[
        Literal["txt", "jsonl", "csv", "parquet"] | None,
        typer.Option("--format", help="Format of all files.", show_default="by their names"),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language for sentence boundaries.", show_default="by the script")
    ] = None,
    segmenter: Annotated[
        Literal["jieba"] | None,
        typer.Option(
            help="Segmenter of Chinese words, for masks of whole words; needs the 'zh' extra.",
            show_default="each character is a word",
        ),
    ] = None,
    min_tokens: Annotated[int, typer.Option(min=1, help="Leave out documents with fewer tokens.")] = 1,
    shard_tokens: Annotated[int, typer.Option(min=1, help="Tokens a shard holds, about.")] = 1 << 27,
    spans: Annotated[
        Path | None,
        typer.Option(
            "--spans",
            help="Names to find, for masking.law=given: a .txt with one a line, or triples (.tsv, .csv, .nt).",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the corpus in the folder.")] = False,
    quiet: QuietOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Turn raw text into a prepared corpus: token shards with document, sentence and word boundaries.

    The result does not depend on the number of workers or the engine. Run the same command again to
    resume an interrupted run.

    Examples:
      spanlab prepare books --tokenizer tokenizer --out corpus
      spanlab prepare books --spans people-and-places.txt --tokenizer tokenizer --out corpora/books
      spanlab prepare novels-zh --segmenter jieba --tokenizer tokenizer --out corpora/zh
      spanlab prepare s3://bucket/texts --tokenizer tokenizer --out s3://bucket/corpus
      spanlab prepare reviews.jsonl.gz --text-field body --tokenizer tokenizer --out corpora/reviews --workers 8
    """
    from spanlab.corpus import PreparedCorpus
    from spanlab.corpus.gazetteer import read_names, write_spans
    from spanlab.corpus.prepare.byte_readers import LookAhead
    from spanlab.corpus.prepare.config import PrepareConfig
    from spanlab.corpus.prepare.plan import plan_preparation
    from spanlab.text import Tokenizer

    config = PrepareConfig(
        documents=documents,
        lines=lines,
        text_field=text_field,
        language=language,
        segmenter=segmenter,
        min_tokens=min_tokens,
        errors=errors,
        shard_tokens=shard_tokens,
    )
    names = None if spans is None else read_names(spans)  # a mistake in them is told before hours of work
    loaded = Tokenizer.load(tokenizer)
    stdin = LookAhead(sys.stdin.buffer) if "-" in files else None
    plan = plan_preparation(files, config, file_format=file_format, stdin=stdin)
    _report_layout(plan)
    manifest = _run(plan, loaded, out, workers, engine, overwrite, quiet)
    if names is not None:
        found = write_spans(PreparedCorpus.open(out), names)
        note(f"{len(names):,} names, found {found:,} times; masking.law=given masks them")
    _print_result(manifest, out, json)


def _report_layout(plan: "Plan") -> None:
    config = plan.config
    assert config.documents is not None
    assert config.lines is not None
    if "documents" in plan.detected:
        note(f"documents: {config.documents} (detected: {_DOCUMENTS[config.documents]}; change it with --documents)")
    if "lines" in plan.detected:
        note(f"lines: {config.lines} (detected: {_LINES[config.lines]}; change it with --lines)")


def _run(
    plan: "Plan",
    tokenizer: "Tokenizer",
    out: str,
    workers: int | None,
    engine: Literal["local", "ray"],
    overwrite: bool,
    quiet: bool,
) -> "Manifest":
    from spanlab.corpus.prepare import run as preparation

    total = None if plan.text_bytes is None else plan.text_bytes / 1e6  # of standard input nobody knows
    with InputProgress("prepare", total, unit="MB", quiet=quiet) as progress:
        done = 0

        def show(state: preparation.Progress) -> None:
            nonlocal done
            progress.advance((state.text_bytes - done) / 1e6)
            done = state.text_bytes

        return preparation.run_preparation(
            plan, tokenizer=tokenizer, out=out, workers=workers, engine=engine, overwrite=overwrite, on_progress=show
        )


def _print_result(manifest: "Manifest", out: str, as_json: bool) -> None:
    from dataclasses import asdict

    counts = asdict(manifest.counts)
    if as_json:
        print_json({"corpus": out, "counts": counts, "shards": len(manifest.shards)})
        return
    labels = {
        "tokens": "tokens",
        "words": "words",
        "sentences": "sentences",
        "documents": "documents",
        "duplicates": "duplicate documents left out",
        "short": "short documents left out",
        "cut": "cuts in documents that were too long",
        "replaced": "invalid byte sequences replaced",
        "empty": "empty files",
    }
    always = ("tokens", "words", "sentences", "documents", "duplicates")
    rows = [(label, f"{counts[name]:,}") for name, label in labels.items() if counts[name] or name in always]
    print_table([("corpus", out), ("shards", str(len(manifest.shards))), *rows])
