"""What is fuzzed: valid files of every kind, made once in a folder, and the call that reads each of them.

A target's call gets the folder, in which one of its files was mutated. It must return, or raise an error of the user's.
"""

import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zstandard
from safetensors.torch import load_file, save_file

import spanlab
from spanlab.compare.config import load_study, parse_budget, resolve_recipes
from spanlab.compare.outcomes import read_outcomes
from spanlab.config import parse_overrides
from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.corpus.verify import corpus_statistics, find_damage
from spanlab.corruption.given_spans import SpanFile
from spanlab.encoder.pretrained import load_model
from spanlab.encoder.pretrained.convert import convert_folder
from spanlab.finetuning.config import MultitaskConfig, resolve_run_config
from spanlab.finetuning.multitask import read_task_list, task_config
from spanlab.pretraining.build import WeightedCorpus, build_data
from spanlab.pretraining.compatibility import check_recipe
from spanlab.pretraining.memory import check_memory
from spanlab.pretraining.new_encoder import new_encoder_config
from spanlab.pretraining.recipe import load_recipe
from spanlab.pretraining.recipe_files import check_recipe_file, find_differences
from spanlab.report.run_page import run_page
from spanlab.samples import load
from spanlab.samples.export import Selection, export
from spanlab.tasks.checking import check_file
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import fit_task, read_labelled
from spanlab.tasks.scoring import score_files
from spanlab.tasks.table import TASKS, find_task
from spanlab.text import Tokenizer
from spanlab.training.checkpoint import read_checkpoint
from spanlab.workflows.pretrain import PretrainingJob, run_job
from spanlab.workflows.reproduce import plan_reproduction
from tests.pretraining.making import SMALLEST, make_tokenizer, prepare, write_text
from tests.tasks.relation.test_files import CONLL04, SEMEVAL, WORDS
from tests.tiny_model import write_tiny_model

GAP = (
    "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    "d-1\tAnn met Eve and she smiled.\tshe\t16\tAnn\t0\tTRUE\tEve\t8\tFALSE\thttp://x\n"
)
STUDY = """recipe: bert
settings: {masking: {ratio: 0.2}, training.lr: 1e-3}
variants:
  subword: {}
  spans: {recipe: spanbert, settings: {masking.law: span}, data: [other]}
grid: {masking.max_length: [8, 10]}
data: [corpus]
tasks: {ner: {task: ner, train: a.conll, dev: b.conll, test: c.conll, settings: {training.epochs: 2}}}
finetuning: {training: {batch_size: 8}}
budget: 10m
seeds: [1, 2, 5]
threads: 1
"""
TEXT = "Ada Lovelace lived in London and wrote about the engine of Charles Babbage."
OUT = "out"
"""Where a call may write; removed after each case."""


@dataclass(frozen=True)
class Target:
    """A kind of file, by name: which files may be mutated, and what reads them."""

    name: str
    files: tuple[str, ...]
    call: Callable[[Path], object]
    weight: int = 4


def make_files(folder: Path) -> None:
    """All valid files, in a few seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    text = write_text(folder / "text.txt", documents=12)
    tokenizer = make_tokenizer(text)
    prepare(text, tokenizer, folder / "corpus")
    tokenizer.save(folder / "tokenizer")
    _make_labelled(folder)
    _make_models(folder)
    _make_raw_texts(folder, text)
    recipe = load_recipe("spanbert", [*SMALLEST, "training.steps=3", "training.save_every=2"])
    run_job(PretrainingJob(recipe=recipe, data=(str(folder / "corpus"),), out=str(folder / "run")))
    checkpoints = sorted((folder / "run" / "checkpoints").iterdir())
    shutil.copytree(next(path for path in reversed(checkpoints) if path.is_dir()), folder / "checkpoint")
    shutil.copy(Path(spanlab.__file__).parent / "recipes" / "spanbert.yaml", folder / "recipe.yaml")
    shutil.copy(Path(spanlab.__file__).parent / "recipes" / "xlnet.yaml", folder / "recipe-xlnet.yaml")
    entries = "- {name: one, task: ner, train: ner.jsonl, dev: ner.jsonl, weight: 2}\n"
    entries += "- name: two\n  task: qa\n  train: qa.jsonl\n  settings:\n    data: {length: 64}\n    max_answer: 8\n"
    (folder / "tasks.yaml").write_text(entries)
    (folder / "study.yaml").write_text(STUDY)
    counts = [[2, 3, 4], [0, 1, 0], [1, 1, 1]]
    outcomes = {"format_version": 1, "metric": "f1", "rule": "f1", "count": 3, "metrics": {"f1": 60.0}, "remarks": []}
    (folder / "outcomes.json").write_text(json.dumps({**outcomes, "counts": counts}))
    (folder / "overrides.txt").write_text(
        "seed=3\ntraining.lr=1e-4\ntraining.batch_size=16\ntraining.betas=[0.9, 0.98]\ndata.length=128\n"
    )
    words = PreparedCorpus.open(folder / "corpus").read([0], [200]).word_starts
    spans = [
        {"start": int(start), "end": int(start) + 1} for start in np.flatnonzero(words & np.append(words[1:], True))
    ]
    (folder / "spans.jsonl").write_text("".join(json.dumps(span) + "\n" for span in spans[:20]))


def _make_labelled(folder: Path) -> None:
    for task in TASKS:
        export(load(), task, folder / "almanac" / task, Selection(language="en", split="dev"))
        for path in sorted((folder / "almanac" / task).iterdir()):
            lines = path.read_text(encoding="utf-8").split("\n")
            if path.suffix == ".jsonl":
                lines = lines[:6]
            elif path.suffix == ".conll":  # whole documents
                lines = lines[: lines.index("#end document") + 1] if "#end document" in lines else lines[:60]
            (folder / f"{task}{path.suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.rmtree(folder / "almanac")
    (folder / "relation.semeval.txt").write_text(SEMEVAL)
    (folder / "relation.conll04.txt").write_text(CONLL04)
    (folder / "relation.scierc.json").write_text(json.dumps(WORDS, indent=1))
    (folder / "coref.gap.tsv").write_text(GAP)
    (folder / "classification.csv").write_text('text,label\n"a, ""good"" day",good\n"a bad\nday",bad\n')
    answers = [json.loads(line) for line in (folder / "qa.jsonl").read_text().splitlines() if line]
    (folder / "qa.predicted.json").write_text(json.dumps({str(answer.get("id", "")): "x" for answer in answers}))
    flat = '{"id": "1", "text": "Ada met Bob.", "spans": [{"start": 0, "end": 3, "label": "PER"}]}\n'
    (folder / "ner.jsonl").write_text(flat + flat.replace('"1"', '"2"').replace("Ada", "Eve"))
    for task in TASKS:
        rows = [json.loads(line) for line in (folder / f"{task}.jsonl").read_text().splitlines() if line]
        extra = {"qa": {"answer": "x"}, "generation": {"text": "x"}}.get(task, {})
        (folder / f"{task}.predicted.jsonl").write_text("".join(json.dumps({**row, **extra}) + "\n" for row in rows))
    data = (folder / "ner.jsonl").read_bytes()
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress(data))
    (folder / "packed.jsonl.xz").write_bytes(lzma.compress(data))


def _make_models(folder: Path) -> None:
    model = write_tiny_model(folder / "model")
    run = spanlab.finetune(
        "ner",
        model=model,
        train=folder / "ner.jsonl",
        out=folder / "ner-run",
        training={"steps": 1, "device": "cpu", "threads": 1, "precision": "fp32"},
        data={"length": 64},
        head="span",
    )
    shutil.move(run.folder / "model", folder / "ner-model")
    shutil.rmtree(folder / "ner-run")
    convert_folder(model, folder / "compact", compact=True)
    tensors = load_file(model / "model.safetensors")
    for name in ("sharded", "bin", "vocab"):
        shutil.copytree(model, folder / name)
        (folder / name / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / "sharded" / file)
    index = {"metadata": {}, "weight_map": {name: file for file, part in halves.items() for name in part}}
    (folder / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index))
    torch.save(tensors, folder / "bin" / "pytorch_model.bin")
    vocabulary = Tokenizer.load(model).vocabulary
    (folder / "vocab" / "tokenizer.json").unlink()
    (folder / "vocab" / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")


def _make_raw_texts(folder: Path, text: Path) -> None:
    paragraphs = text.read_text().split("\n\n")[:6]
    contents = {
        "raw.txt": "\n\n".join(paragraphs).encode(),
        "raw.jsonl": "".join(json.dumps({"text": part, "id": 7}) + "\n" for part in paragraphs).encode(),
        "raw.csv": ("id,text\n" + "".join(f'{n},"{part}"\n' for n, part in enumerate(paragraphs))).encode(),
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
        (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        (folder / f"{name}.xz").write_bytes(lzma.compress(data))
        (folder / f"{name}.zst").write_bytes(zstandard.compress(data))
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": paragraphs}), folder / "raw.parquet")


def _read_labelled(task: str, file: str) -> Callable[[Path], object]:
    def call(folder: Path) -> None:
        task_class, path = find_task(task), str(folder / file)
        check_file(task_class, path, TaskDataConfig())
        examples = read_labelled(task_class, path, TaskDataConfig(bad_rows="drop"))
        if not file.endswith(".gap.tsv"):  # which is for evaluation
            config = resolve_run_config(task, {"head": "span"} if task == "ner" else {})
            assert not isinstance(config, MultitaskConfig)
            fit_task(task_class, config, examples)

    return call


def _score(task: str, file: str) -> Callable[[Path], object]:
    return lambda folder: score_files(task, str(folder / f"{task}.jsonl"), str(folder / file))


def _prepare(file: str) -> Callable[[Path], object]:
    def call(folder: Path) -> None:
        plan = plan_preparation([str(folder / file)], PrepareConfig())
        run_preparation(plan, tokenizer=_tokenizer(folder), out=folder / OUT, workers=1)

    return call


@cache
def _tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder / "tokenizer")


@cache
def _predictor(folder: Path) -> Any:
    return spanlab.load(folder / "ner-model", device="cpu", precision="fp32")


def _predict(folder: Path) -> None:
    spanlab.load(folder / "ner-model", device="cpu", precision="fp32").predict([TEXT])


def _predict_file(folder: Path) -> None:
    predictor = _predictor(folder)
    rows = _rows(predictor, folder / "ner.predicted.jsonl")
    for result in predictor.predict([dict(row.values) for row in rows]):
        json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False).encode()


def _rows(predictor: Any, path: Path) -> list[Any]:
    from spanlab.tasks.formats.reading import read_rows
    from spanlab.tasks.formats.row import Row

    rows = []
    for row in read_rows(str(path), predictor.model.tasks["ner"].shape):
        if isinstance(row, Row):
            rows.append(row)
    return rows


def _load_encoder(name: str) -> Callable[[Path], object]:
    def call(folder: Path) -> None:
        model = load_model(folder / name)
        Tokenizer.load(folder / name).encode(TEXT)
        with torch.no_grad():
            model.encoder(torch.tensor([[1, 2, 3]]))

    return call


def _read_vocabulary(folder: Path) -> None:
    Tokenizer.load(folder / "vocab").encode(TEXT)


def _read_recipe(file: str) -> Callable[[Path], object]:
    def call(folder: Path) -> None:
        recipe = load_recipe(str(folder / file), ["training.batch_size=8"])
        check_recipe(recipe)
        if recipe.system != "elmo" and recipe.backbone != "elmo":
            tokenizer = _tokenizer(folder)
            check_memory(recipe, new_encoder_config(recipe, vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id))

    return call


def _check_recipe_file(folder: Path) -> None:
    report = check_recipe_file(str(folder / "recipe.yaml"), memory_gb=64)
    if report.problems:
        raise report.problems[0]
    find_differences(str(folder / "recipe.yaml"))


def _plan_reproduction(folder: Path) -> None:
    plan_reproduction(str(folder / "run"), data=folder, out=str(folder / OUT)).notes()


def _read_study(folder: Path) -> None:
    study = load_study(str(folder / "study.yaml"), settings=["size=tiny"], budget="1k tokens")
    parse_budget(study)
    assert len(resolve_recipes(study)) > 1
    assert len(study.seed_list) > 1


def _read_overrides(folder: Path) -> None:
    lines = (folder / "overrides.txt").read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")
    load_recipe("spanbert", lines)
    resolve_run_config("ner", parse_overrides(lines))


def _read_tasks(folder: Path) -> None:
    for entry, source in read_task_list(folder / "tasks.yaml"):
        task_config(entry, source, MultitaskConfig())


def _read_corpus(folder: Path) -> None:
    corpus = PreparedCorpus.open(folder / "corpus")
    corpus.read([0], [corpus.counts.tokens])
    corpus_statistics(corpus)
    find_damage(folder / "corpus")
    build_data(load_recipe("spanbert", SMALLEST), [WeightedCorpus(corpus)]).step(0, rank=0, world_size=1)


def _read_spans(folder: Path) -> None:
    words = PreparedCorpus.open(folder / "corpus").read([0], [200]).word_starts
    SpanFile(folder / "spans.jsonl", words)


def _read_run(folder: Path) -> None:
    run_page(folder / "run")


def targets(folder: Path) -> list[Target]:
    """All kinds of files."""
    labelled = sorted(
        path.name
        for path in folder.iterdir()
        if path.is_file() and path.name.split(".")[0] in TASKS and ".predicted" not in path.name
    )
    predicted = sorted(path.name for path in folder.glob("*.predicted.json*"))
    raw = sorted(path.name for path in folder.glob("raw.*"))
    model_files = [f"ner-model/{path.name}" for path in (folder / "ner-model").iterdir() if path.suffix != ".md"]
    return [
        Target("model", tuple(sorted(model_files)), _predict, 20),
        Target(
            "sharded", ("sharded/model.safetensors.index.json", "sharded/a.safetensors"), _load_encoder("sharded"), 6
        ),
        Target("bin", ("bin/pytorch_model.bin",), _load_encoder("bin"), 6),
        Target("compact", ("compact/model.safetensors",), _load_encoder("compact"), 6),
        Target("vocab", ("vocab/vocab.txt", "vocab/tokenizer_config.json"), _read_vocabulary, 5),
        Target(
            "tokenizer",
            ("tokenizer/tokenizer.json",),
            lambda folder: Tokenizer.load(folder / "tokenizer").encode(TEXT),
            6,
        ),
        Target("recipe", ("recipe.yaml",), _read_recipe("recipe.yaml"), 6),
        Target("recipe-xlnet", ("recipe-xlnet.yaml",), _read_recipe("recipe-xlnet.yaml"), 4),
        Target("recipe-check", ("recipe.yaml",), _check_recipe_file, 3),
        Target("reproduce", ("run/model/reproduce.json",), _plan_reproduction, 3),
        Target("study", ("study.yaml",), _read_study, 4),
        Target(
            "outcomes", ("outcomes.json",), lambda folder: read_outcomes(folder / "outcomes.json").counts.score(), 3
        ),
        Target("overrides", ("overrides.txt",), _read_overrides, 6),
        Target("tasks-list", ("tasks.yaml",), _read_tasks, 6),
        Target(
            "corpus",
            tuple(f"corpus/{name}" for name in ("manifest.json", "shard-00000.bin", "token_counts.bin")),
            _read_corpus,
            8,
        ),
        Target("spans", ("spans.jsonl",), _read_spans, 3),
        Target(
            "run",
            tuple(
                f"run/{name}"
                for name in ("config.yaml", "metrics.jsonl", "status.json", "environment.json", "fillings.json")
            ),
            _read_run,
            6,
        ),
        Target(
            "checkpoint",
            tuple(f"checkpoint/{path.name}" for path in sorted((folder / "checkpoint").iterdir())),
            lambda folder: read_checkpoint(folder / "checkpoint"),
            5,
        ),
        Target("predict", ("ner.predicted.jsonl",), _predict_file, 4),
        Target("packed-gz", ("packed.jsonl.gz",), _read_labelled("ner", "packed.jsonl.gz"), 3),
        Target("packed-xz", ("packed.jsonl.xz",), _read_labelled("ner", "packed.jsonl.xz"), 3),
        *(Target(f"labelled-{name}", (name,), _read_labelled(name.split(".")[0], name), 3) for name in labelled),
        *(Target(f"score-{name}", (name,), _score(name.split(".")[0], name), 2) for name in predicted),
        *(Target(f"prepare-{name}", (name,), _prepare(name), 2) for name in raw),
    ]
