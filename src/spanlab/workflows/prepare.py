"""Raw text to a prepared corpus in one call: `spanlab.prepare`, what `spanlab prepare` does, without its display."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from spanlab.config import from_mapping
from spanlab.corpus import PreparedCorpus
from spanlab.corpus.gazetteer import read_names, write_spans
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.corpus.prepare.plan import plan_preparation
from spanlab.corpus.prepare.run import Progress, run_preparation
from spanlab.text import Tokenizer


def prepare(
    files: str | Path | Sequence[str | Path],
    *,
    tokenizer: str | Path | Tokenizer,
    out: str | Path,
    workers: int | None = 1,
    engine: Literal["local", "ray"] = "local",
    spans: str | Path | None = None,
    overwrite: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,  # noqa: ANN401 (fields of PrepareConfig)
) -> PreparedCorpus:
    """Turn raw text into a prepared corpus; an interrupted preparation in `out` is resumed.

    Args:
        files: files, folders or patterns, or `datasets:NAME[:CONFIG][:SPLIT]`.
        tokenizer: a tokenizer, its folder or file, or a name in `spanlab models`.
        out: the folder of the corpus.
        workers: worker processes; None: one per core. More than one are started by importing the caller's main module,
            so a script must call this under `if __name__ == "__main__"`.
        engine: where the workers run.
        spans: names to find, for masking.law=given: a .txt with one a line, or triples (.tsv, .csv, .nt).
        overwrite: replace the corpus in the folder.
        on_progress: is told how far the preparation has come.
        settings: of `PrepareConfig`, such as `documents="line"` or `text_field="body"`.
    """
    config = from_mapping(PrepareConfig, settings)
    names = None if spans is None else read_names(Path(spans))  # a mistake in them is told before hours of work
    loaded = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    given = [files] if isinstance(files, str | Path) else files
    plan = plan_preparation([str(name) for name in given], config)
    run_preparation(
        plan,
        tokenizer=loaded,
        out=out,
        workers=workers,
        engine=engine,
        overwrite=overwrite,
        on_progress=on_progress,
    )
    corpus = PreparedCorpus.open(out)
    if names is not None:
        write_spans(corpus, names)
    return corpus
