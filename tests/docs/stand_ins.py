"""What a page takes for granted, made small: texts, a corpus, a model and labelled files under the names pages use."""

import shutil
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

import yaml

from spanlab.encoder import (
    CausalLMHead,
    EncoderConfig,
    MaskedLMHead,
    SpanBoundaryHead,
    TransformerEncoder,
    preset,
    save_model,
)
from spanlab.samples import load
from spanlab.samples.export import Selection, export
from spanlab.text import Tokenizer
from spanlab.workflows.finetune import finetune
from tests.pretraining.making import make_tokenizer, prepare, write_text

TEXT_FOLDERS = ("texts", "books", "novels")
TEXT_FILES = ("texts.txt", "mine.txt", "my.txt")
CORPORA = ("corpus", "corpora/mine", "corpora/legal", "corpora/web", "corpora/books")
TOKENIZERS = ("tokenizer", "tokenizers/mine")
MODELS = ("MODEL", "bert-base-cased", "minilm", "spanbert-mini-en", "runs/first", "runs/novels", "runs/legal")
TASK_MODELS = {"COREF_MODEL": "coref", "TASK_MODEL": "classification"}
TABLES = {"dev.tsv": "classification", "sst2": "classification", "rte": "similarity", "conll": "ner"}
"""Labelled files under the names of public sets, with sentences of the almanac in them."""
TASK_LIST = [
    {"name": "sst2", "task": "classification", "train": "sst2/train.tsv", "dev": "sst2/dev.tsv"},
    {"name": "conll", "task": "ner", "train": "conll/train.txt", "dev": "conll/dev.txt"},
]
TASKS = ("classification", "similarity", "ner", "qa", "coref", "relation", "summarisation", "generation")


def make_stock(folder: Path) -> Path:
    """One of each thing, to be copied into a page's workspace under every name it goes by."""
    text = write_text(folder / "text.txt", documents=60)
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
    encoder = TransformerEncoder(config)
    heads = {"mlm": MaskedLMHead(config), "sbo": SpanBoundaryHead(config.width, tokenizer.vocab_size)}
    save_model(folder, encoder, heads)
    tokenizer.save(folder)


def _write_causal_model(folder: Path, tokenizer: Tokenizer) -> None:
    encoder = TransformerEncoder(preset("gpt2", "tiny", vocab_size=tokenizer.vocab_size))
    save_model(folder, encoder, {"clm": CausalLMHead(encoder.config)})
    tokenizer.save(folder)


def furnish(workspace: Path, stock: Path, code: str) -> None:
    """Put there what the code of a page names."""
    place = partial(_place, workspace, code)
    causal = ("GPT", *(name for name in MODELS if f"generate {name}" in code))
    place(causal, lambda target: _copy_causal(stock, target))
    for names, source in ((CORPORA, "corpus"), (TOKENIZERS, "tokenizer"), (MODELS, "model")):
        place(names, partial(shutil.copytree, stock / source))
    place(TEXT_FOLDERS, lambda target: _copy_text(stock, target))
    place(TEXT_FILES, lambda target: _write_lines(stock, target))
    place(("tasks.yaml",), lambda target: target.write_text(yaml.safe_dump(TASK_LIST), encoding="utf-8"))
    for name, task in TABLES.items():
        place((name,), partial(_copy_table, stock / "labelled" / task))
    place(("reviews.csv",), lambda target: target.write_text("review,opinion\n" + "fine,good\ndull,bad\n" * 4))
    place(("new.csv",), lambda target: target.write_text("number,review\n1,fine and dull\n"))
    if "tasks.yaml" in code:
        for name in ("sst2", "conll"):
            _copy_table(stock / "labelled" / TABLES[name], workspace / name)
    for name, task in TASK_MODELS.items():
        place((name,), partial(_train, stock, task))
    if "add_pipe" in code:
        import_module("spanlab.integrations.spacy")  # as the entry point of an installed package does


def _place(workspace: Path, code: str, names: tuple[str, ...], make: Callable[[Path], object]) -> None:
    for name in names:
        target = workspace / name
        if name in code and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            make(target)


def _copy_causal(stock: Path, target: Path) -> None:
    _write_causal_model(target, Tokenizer.load(stock / "tokenizer"))


def _copy_text(stock: Path, target: Path) -> None:
    target.mkdir()
    shutil.copy(stock / "text.txt", target / "one.txt")


def _copy_table(labelled: Path, target: Path) -> None:
    """The field's own format of a task: one file, or a folder of splits."""
    found = {path.stem: path for path in labelled.iterdir() if path.suffix in {".tsv", ".conll", ".txt"}}
    if target.suffix:
        shutil.copy(found["dev"], target)
        return
    target.mkdir(exist_ok=True)
    for split in ("train", "dev"):
        suffix = ".tsv" if found[split].suffix == ".tsv" else ".txt"
        shutil.copy(found[split], target / f"{split}{suffix}")


def _train(stock: Path, task: str, target: Path) -> None:
    """A model for a task after one step."""
    train = stock / "labelled" / task / "train.jsonl"
    result = finetune(
        task, model=stock / "model", train=train, out=target.with_name("run-of-it"), training={"steps": 1}
    )
    shutil.copytree(str(result.model), target)


def _write_lines(stock: Path, target: Path) -> None:
    lines = (stock / "text.txt").read_text(encoding="utf-8").splitlines()
    target.write_text("\n".join(line for line in lines[:400] if line) + "\n", encoding="utf-8")
