"""What a page takes for granted, made small: texts, a corpus, a model and labelled files under the names pages use."""

import shutil
from collections.abc import Callable
from pathlib import Path

from spanlab.encoder import Encoder, EncoderConfig, MaskedLMHead, SpanBoundaryHead, save_model
from spanlab.text import Tokenizer
from spanlab.text.almanac import load
from spanlab.text.almanac.exports import Selection, export
from tests.pretraining.making import make_tokenizer, prepare, write_text

TEXT_FOLDERS = ("texts", "books", "novels")
CORPORA = ("corpus", "corpora/mine", "corpora/legal", "corpora/web", "corpora/books")
TOKENIZERS = ("tokenizer", "tokenizers/mine")
MODELS = ("MODEL", "bert-base-cased", "minilm", "runs/first", "runs/novels", "runs/legal")
TASKS = ("classification", "similarity", "ner", "qa", "coref", "relation", "summarisation", "generation")


def make_stock(folder: Path) -> Path:
    """One of each thing, to be copied into a page's workspace under every name it goes by."""
    text = write_text(folder / "text.txt", documents=20)
    tokenizer = make_tokenizer(text, vocab_size=150)
    tokenizer.save(folder / "tokenizer")
    prepare(text, tokenizer, folder / "corpus")
    _write_model(folder / "model", tokenizer)
    for task in TASKS:
        export(load(), task, folder / "labelled" / task, Selection(language="en"))
    return folder


def _write_model(folder: Path, tokenizer: Tokenizer) -> None:
    """A SpanBERT of one narrow layer with both heads."""
    config = EncoderConfig(
        width=32, layers=1, heads=2, inner_width=64, max_positions=128, vocab_size=tokenizer.vocab_size
    )
    encoder = Encoder(config)
    heads = {"mlm": MaskedLMHead(config), "sbo": SpanBoundaryHead(config.width, tokenizer.vocab_size)}
    save_model(folder, encoder, heads)
    tokenizer.save(folder)


def furnish(workspace: Path, stock: Path, code: str) -> None:
    """Put there what the code of a page names."""
    for names, source in ((CORPORA, "corpus"), (TOKENIZERS, "tokenizer"), (MODELS, "model")):
        _place(workspace, names, code, lambda target, source=source: shutil.copytree(stock / source, target))  # type: ignore[misc]
    _place(workspace, TEXT_FOLDERS, code, lambda target: _copy_text(stock, target))
    _place(workspace, ("texts.txt", "mine.txt", "my.txt"), code, lambda target: _write_lines(stock, target))


def _place(workspace: Path, names: tuple[str, ...], code: str, make: Callable[[Path], object]) -> None:
    for name in names:
        target = workspace / name
        if name in code and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            make(target)


def _copy_text(stock: Path, target: Path) -> None:
    target.mkdir()
    shutil.copy(stock / "text.txt", target / "one.txt")


def _write_lines(stock: Path, target: Path) -> None:
    target.write_text("\n".join((stock / "text.txt").read_text(encoding="utf-8").splitlines()[:400]) + "\n", "utf-8")
