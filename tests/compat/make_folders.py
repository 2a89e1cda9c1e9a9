"""How the folders in `data/` were made: `python -m tests.compat.make_folders FOLDER`, which must not be there yet.

They stand for what users have from before: a tokenizer, a prepared corpus, model folders of every system and task, and
runs that were interrupted. They were written once, by the code of the commit that `test_folders_written_before.py`
names, and are not written anew when the code changes: that it still reads them is what is tested. Only the command line
and the public names of `spanlab` are used, so that the same script makes the same kinds of folders at any time.
"""

import contextlib
import json
import os
import runpy
import shutil
import signal
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import spanlab
from tests.compat.examples import (
    FILLED,
    PRETRAINED_ON,
    READ,
    TASKS,
    TaskFolder,
    write_labelled,
    write_text,
)

EXACT = {"precision": "fp32", "threads": 1, "device": "cpu"}
SHAPE = {"layers": 1, "width": 16, "heads": 2, "inner_width": 32, "max_positions": 64}
SHAPES: dict[str, dict[str, Any]] = {
    "albert": {**SHAPE, "layers": 2, "embedding_width": 8},
    "gpt": {**SHAPE, "layers": 2},
    "elmo": {"cells": 16, "projection": 8, "filters": [[1, 4], [2, 8]], "max_characters": 16, "max_positions": 64},
}
SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "spanbert": ("wordpiece", {"span_boundary.position_width": 8}),
    "bert": ("wordpiece", {"data.phases": []}),
    "roberta": ("bpe", {}),
    "albert": ("unigram-albert", {}),
    "electra": ("wordpiece", {}),
    "xlnet": ("unigram", {"data.reuse": 16, "data.memory": 16, "masking.permutation.predictions": 6}),
    "gpt": ("bpe-gpt", {}),
    "elmo": ("word", {"data.length": 8}),
}
"""The kind of tokenizer of each system, and what its recipe is told besides."""
TOKENIZERS = {
    "wordpiece": ("--type", "wordpiece", "--vocab-size", "80", "--lowercase"),
    "bpe": ("--type", "bpe", "--vocab-size", "330", "--system", "roberta"),
    "bpe-gpt": ("--type", "bpe", "--vocab-size", "330", "--system", "gpt"),
    "unigram": ("--type", "unigram", "--vocab-size", "120", "--system", "xlnet"),
    "unigram-albert": ("--type", "unigram", "--vocab-size", "120", "--system", "albert"),
    "word": ("--type", "word", "--vocab-size", "120"),
}
INTERRUPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "spanbert": ("spanbert", {"training.eval_every": 4}),
    "other-body": ("spanbert", {"backbone": "albert", "encoder.embedding_width": 8}),
    "columns": ("xlnet", {**SYSTEMS["xlnet"][1], "data.streams": 8}),
}
"""Pre-training runs that are stopped in their middle, each with a recipe and what it is told."""
NARROWER = {"encoder.width": 8, "encoder.inner_width": 16}
STEPS, STOPPED = 12, 6


def command(*arguments: str) -> str:
    """What `spanlab ARGUMENTS` prints, run in this process."""
    printed, before = StringIO(), sys.argv
    sys.argv = ["spanlab", *arguments]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_module("spanlab", run_name="__main__")
    except SystemExit as ending:
        if ending.code:
            raise
    finally:
        sys.argv = before
    return printed.getvalue()


def recipe_settings(system: str, **changes: Any) -> dict[str, Any]:
    """What the smallest model of a system is told."""
    encoder = {f"encoder.{key}": value for key, value in SHAPES.get(system, SHAPE).items()}
    data = {"data.length": 32, "data.held_out": 0.1, **SYSTEMS[system][1]}
    training = {f"training.{key}": value for key, value in EXACT.items()} | {"training.batch_size": 8}
    return {"size": "tiny", **encoder, **data, **training, "training.lr": 0.01, **changes}


def stop_at(step: int) -> Callable[[Any], None]:
    """Press Ctrl-C so that a run ends after a step: it is heard before the next, which is still done."""

    def listen(record: Any) -> None:
        if record.step == step - 1 and record.split == "train":
            os.kill(os.getpid(), signal.SIGINT)

    return listen


def strip(run: Path) -> None:
    """Keep of a run what going on with it needs, and nothing that tells of the machine."""
    for name in ("environment.json", "report.html", "fillings.json", ".lock"):
        (run / name).unlink(missing_ok=True)


def make_corpora(folder: Path) -> None:
    """A tokenizer of each kind and the text in its tokens; one of each is kept."""
    text = write_text(folder / "text.txt")
    for kind, options in TOKENIZERS.items():
        command("tokenizer", "train", str(text), *options, "--out", f"tokenizers/{kind}")
        layout = ("--documents", "blank-line", "--lines", "sentences", "--workers", "1")
        command("prepare", str(text), "--tokenizer", f"tokenizers/{kind}", "--out", f"corpora/{kind}", *layout)


def make_models(kept: Path) -> None:
    """A model folder of each system, the vectors it gives, and what it fills in or goes on with."""
    for system, (kind, _) in SYSTEMS.items():
        settings = recipe_settings(system, **{"training.steps": 150, "training.eval_every": 150})
        run = spanlab.pretrain(system, data=f"corpora/{kind}", out=f"pretrained/{system}", **settings)
        shutil.copytree(run.model, kept / system)
        told: dict[str, Any] = {"vectors": spanlab.load(run.model, precision="fp32").encode(READ).tolist()}
        told["parameters"] = sum(each.numel() for each in spanlab.Encoder.from_pretrained(run.model).parameters())
        if system in FILLED:
            told["fill"] = json.loads(command("fill", str(run.model), FILLED[system], "--top", "2", "--json"))
        if system == "gpt":
            going_on = ("--max-new-tokens", "8", "--temperature", "0", "--json")
            told["generate"] = json.loads(command("generate", str(run.model), READ[0], *going_on))
        write(kept / f"{system}.json", told)


def make_interrupted_pretraining(kept: Path) -> None:
    """Runs of STEPS steps stopped after STOPPED of them, and the losses of the same runs undisturbed."""
    for name, (recipe, changes) in INTERRUPTED.items():
        base = {**NARROWER, "training.steps": STEPS, "training.eval_every": STEPS, "training.keep": 1}
        settings = recipe_settings(recipe, **base | changes)
        corpus = f"corpora/{SYSTEMS[recipe][0]}"
        whole = spanlab.pretrain(recipe, data=corpus, out=f"whole/{name}", **settings)
        with contextlib.suppress(KeyboardInterrupt):
            spanlab.pretrain(recipe, data=corpus, out=f"begun/{name}", on_record=stop_at(STOPPED), **settings)
        keep_interrupted(Path(f"begun/{name}"), whole.folder, kept / name)
        told = {"recipe": recipe, "corpus": SYSTEMS[recipe][0], "settings": settings}
        write(kept / f"{name}.json", {**told, "records": records_after(whole.folder)})


def keep_interrupted(begun: Path, whole: Path, kept: Path) -> None:
    """A stopped run, as far as it is needed, once it is sure that it has stopped on its way."""
    assert json.loads((begun / "status.json").read_text())["step"] == STOPPED, begun
    assert json.loads((whole / "status.json").read_text())["step"] == STEPS, whole
    shutil.copytree(begun, kept)
    strip(kept)


def records_after(run: Path) -> list[dict[str, Any]]:
    """What a run told after STOPPED steps: losses and scores, not speeds."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    speeds = {"tokens_per_second", "memory_gb", "peak_share", "seconds"}
    return [{k: v for k, v in record.items() if k not in speeds} for record in records if record["step"] > STOPPED]


def make_tasks(kept: Path, labelled: Path) -> None:
    """A fine-tuned model of every task and head, with inputs and what it said about them."""
    for task in TASKS:
        run = finetune(task, Path(f"tuned/{task.name}"), labelled)
        shutil.copytree(run.model, kept / task.name)
        model = spanlab.load(run.model, precision="fp32")
        said = [model.predict(one, task=name)[0].to_dict() for name, one in task.cases]
        cases = [{"task": name, "input": one, "said": each} for (name, one), each in zip(task.cases, said, strict=True)]
        write(kept / f"{task.name}.json", cases)


def finetune(task: TaskFolder, out: Path, labelled: Path, **more: Any) -> Any:
    """Fine-tune one of the models that are kept."""
    training = {**EXACT, "batch_size": 8, "lr": 0.005, "epochs": 50.0, "eval_every": 10_000}
    data = {"length": 64}
    train = labelled / task.file
    settings: dict[str, Any] = {"training": {**training, **task.training}, "data": data, **task.settings, **more}
    dev = train if task.with_dev else None
    model = f"tuned/{task.added_to}" if task.added_to else f"pretrained/{task.model}/model"
    extra = {"add": True, "name": "again"} if task.added_to else {}
    return spanlab.finetune(task.task, model=model, train=train, dev=dev, out=out, **extra, **settings)


def make_interrupted_finetuning(kept: Path, labelled: Path) -> None:
    """A fine-tuning run stopped after STOPPED steps, its files beside it, and the losses of the same undisturbed."""
    kept.mkdir()
    shutil.copytree("pretrained/spanbert/model", "model")
    shutil.copy(labelled / "topics.jsonl", "train.jsonl")
    training = {**EXACT, "batch_size": 8, "lr": 0.01, "steps": STEPS, "eval_every": 4, "keep": 1}
    settings: dict[str, Any] = {"training": training, "data": {"length": 64}}
    given = {"model": "model", "train": "train.jsonl", "dev": "train.jsonl"}
    whole = spanlab.finetune("classification", **given, out="whole/topics", **settings)
    with contextlib.suppress(KeyboardInterrupt):
        spanlab.finetune("classification", **given, out="begun/topics", on_record=stop_at(STOPPED), **settings)
    keep_interrupted(Path("begun/topics"), whole.folder, kept / "run")
    shutil.copy("train.jsonl", kept / "train.jsonl")
    write(kept / "run.json", {"given": given, "settings": settings, "records": records_after(whole.folder)})


def write(path: Path, content: object) -> None:
    """JSON to be read by people, too."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make(out: Path) -> None:
    """Everything, in the order in which one thing is made of another; what is not kept is left in `out/work`."""
    work = out / "work"
    work.mkdir(parents=True)
    with contextlib.chdir(work):  # so that what is written names no path of this machine
        make_corpora(Path())
        labelled = write_labelled(Path("labelled"))
        kept = Path("..")
        shutil.copy("text.txt", kept / "text.txt")
        shutil.copytree("tokenizers/wordpiece", kept / "tokenizer")
        for name in ("models", "pretraining", "tasks"):
            (kept / name).mkdir()
        make_models(kept / "models")
        make_interrupted_pretraining(kept / "pretraining")
        for kind in PRETRAINED_ON:  # with the indices of blocks that training on them has left there
            shutil.copytree(f"corpora/{kind}", kept / "corpora" / kind)
        make_tasks(kept / "tasks", labelled)
        make_interrupted_finetuning(kept / "finetuning", labelled)
    shutil.rmtree(work)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
