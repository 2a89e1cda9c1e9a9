"""The runs of a quickstart: new weights, pre-training, MiniLM continued, and fine-tuning from each of them.

A run gets its share of the time that is left, as a number of steps that is measured once, before it begins; after that
the number stands in the run's own config, so an interrupted run is gone on with to the bit. With and without
pre-training a task is trained for the same steps.
"""

import json
import shutil
import time
from pathlib import Path

from torch import nn

from spanlab.pretraining.build import save_criterion
from spanlab.pretraining.initial_model import build_model
from spanlab.quickstart import plan
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.plan import QuickstartTask
from spanlab.quickstart.runs import SYSTEM, Finetuning, PlannedRun, Pretraining
from spanlab.text import Tokenizer
from spanlab.training.run_folder import CONFIG, REPORT, STATUS, RunFolder


def make_new_weights(place: QuickstartFolder) -> None:
    """A model folder with the weights that pre-training begins with, and nothing learnt."""
    if (place.folder / plan.UNTRAINED).exists():
        return
    with place.timed(plan.UNTRAINED), place.new_folder(plan.UNTRAINED) as new:
        tokenizer = Tokenizer.load(place.folder / plan.TOKENIZER)
        criterion = build_model(_from_nothing(place).recipe(1), tokenizer).criterion
        assert isinstance(criterion, nn.Module)
        save_criterion(new, criterion, SYSTEM)
        tokenizer.save(new)


def pretrain_here(place: QuickstartFolder, runs: tuple[str, ...]) -> None:
    """SpanBERT on the corpus."""
    _train(place, plan.PRETRAINED, _from_nothing(place), runs)


def continue_minilm(place: QuickstartFolder, minilm: Path, runs: tuple[str, ...]) -> None:
    """MiniLM on the same text, with span masking and the span boundary objective."""
    planned = Pretraining(
        corpus=_absolute(place, plan.MINILM_CORPUS),
        settings=plan.CONTINUING,
        training=plan.CONTINUING_STEPS,
        init=minilm,
    )
    _train(place, plan.MINILM, planned, runs)


def finetune_from(place: QuickstartFolder, beginning: str, task: QuickstartTask, runs: tuple[str, ...]) -> None:
    """A task from one of the beginnings."""
    planned = Finetuning(
        task=task,
        beginning=beginning,
        model=_absolute(place, beginning),
        files=_absolute(place, task.name),
        lr=task.minilm_lr if beginning == plan.MINILM else task.lr,
    )
    # What pre-training is worth shows only between runs that are otherwise the same.
    steps = steps_of(place.folder / plan.run_name(plan.UNTRAINED, task)) if beginning == plan.PRETRAINED else None
    _train(place, plan.run_name(beginning, task), planned, runs, steps)


def _from_nothing(place: QuickstartFolder) -> Pretraining:
    settings = {"size": place.settings.size, **plan.PRETRAINING}
    return Pretraining(corpus=_absolute(place, plan.CORPUS), settings=settings, training=plan.PRETRAINING_STEPS)


def _absolute(place: QuickstartFolder, name: str) -> Path:
    """A run's config names it: another working directory must not make it another run."""
    return (place.folder / name).resolve()


def _train(
    place: QuickstartFolder, name: str, planned: PlannedRun, runs: tuple[str, ...], steps: int | None = None
) -> None:
    """Begin a run or go on with it; `runs` are all there will be, in order, to share the time with."""
    folder = place.folder / name
    if is_finished(folder):
        place.watcher.say(f"{name}: done already")
        _drop_checkpoints(folder)  # a kill may have come between
        return
    begun = (folder / CONFIG).is_file()
    place.watcher.say(f"{name}: {'going on with ' if begun else ''}{planned.what}")
    with place.timed(name):
        if begun:
            steps = steps_of(folder)
        elif steps is None:
            steps = place.settings.steps or _steps_that_fit(place, name, planned, runs)
        try:
            planned.train(folder, steps, resume=begun, watcher=place.watcher)
        finally:
            place.watcher.run_ends()
    _drop_checkpoints(folder)


def _drop_checkpoints(run: Path) -> None:
    """Of a finished run nothing is to be gone on from, and MiniLM's state is three times its weights."""
    shutil.rmtree(RunFolder(run).checkpoints.folder, ignore_errors=True)


def _steps_that_fit(place: QuickstartFolder, name: str, planned: PlannedRun, runs: tuple[str, ...]) -> int:
    left = place.settings.budget * (1 - plan.SCORING_SHARE) - place.spent
    share, began = plan.seconds_for(name, runs[runs.index(name) :], left), time.monotonic()
    pace = planned.pace()
    return pace.steps_in(share - (time.monotonic() - began))


def is_finished(run: Path) -> bool:
    """Whether a run has come to its end, its page included."""
    try:
        status = json.loads((run / STATUS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    return status["state"] in {"finished", "patience"} and (run / REPORT).is_file()


def steps_of(run: Path) -> int:
    """The steps a run was begun with."""
    return int(RunFolder(run).read_config()["training"]["steps"])
