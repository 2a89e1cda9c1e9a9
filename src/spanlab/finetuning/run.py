"""Fine-tuning: a labelled file and a model become the work of a run, and the run a model folder.

What is trained is the same loop as in pre-training. One task makes a model of its own here; `adding.py` puts one beside
those of a model, and `multitask.py` trains several together. `prepare` is for all three.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spanlab.config import Source, from_mapping, merge, to_mapping
from spanlab.encoder import load_model
from spanlab.encoder.block import Block
from spanlab.encoder.flops import flops_per_token
from spanlab.encoder.pretrained import class_of, locate_model
from spanlab.errors import ConfigError
from spanlab.finetuning.task_data import Lesson, LessonFiles, mean_length
from spanlab.tasks.adapters import adapt, merged
from spanlab.tasks.base import AnyTask
from spanlab.tasks.card import write_card
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.examples import Examples
from spanlab.tasks.model import TaskModel, save_task_model
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.result import Scores
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.table import find_task
from spanlab.text import Tokenizer
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext
from spanlab.training.spec import TrainingSpec

NARROW, SMALL_RATE = 384, 1e-4
"""A body narrower than this learns next to nothing at published rates, which are smaller than that."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a run is made of."""

    task: str
    model: str
    """A model folder, a run folder or a Hugging Face id."""
    train: str
    dev: str | None = None
    add_as: str | None = None
    """The name under which the task joins those that the model has; None: the model is fine-tuned for it alone."""


def resolve_config(task: str, changes: Mapping[str, Any], source: Source | None = None) -> TaskConfig:
    """A task's published settings with `changes` laid over them, every key checked."""
    kind = find_task(task)
    mapping = merge(to_mapping(kind.Config.base(changes)), changes)
    columns = mapping["data"].get("columns") if isinstance(mapping["data"], Mapping) else None
    if isinstance(columns, str):  # as it is typed: data.columns=word,_,tag
        mapping = merge(mapping, {"data": {"columns": columns.split(",")}})
    config = from_mapping(kind.Config, mapping, source)
    if config.training.batch_warmup:
        raise ConfigError("training.batch_warmup is for pre-training", fix="leave it out")
    return config


class FineTuning:
    """One run, ready to be trained: `work` is what the loop takes."""

    def __init__(self, sources: Sources, config: TaskConfig) -> None:
        self.sources, self.config, self.name = sources, config, sources.task
        files = LessonFiles(task=sources.task, train=sources.train, dev=sources.dev)
        self.lesson = Lesson(self.name, files, config)
        folder = locate_model(sources.model)
        base = load_model(folder)
        self.tokenizer, self.encoder, self._system = Tokenizer.load(folder), base.encoder, base.described.get("system")
        self.lesson.begin(base, self.tokenizer)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(config.seed)
            self.head = self.task.head(self.encoder)
            adapt(self.encoder, config.tuning)
        self._network = MultiTaskNetwork(self.encoder, {self.name: self.head})
        self.work = self._build_work()

    @property
    def training(self) -> TrainingConfig:
        """How it is trained."""
        return self.config.training

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """The only one."""
        return (self.lesson,)

    @property
    def task(self) -> AnyTask:
        """The task with what it has learnt about its data so far."""
        return self.lesson.task

    @property
    def train(self) -> Examples:
        """The training examples."""
        return self.lesson.train

    @property
    def dev(self) -> Examples | None:
        """The examples by which the best model is chosen."""
        return self.lesson.dev

    @property
    def scores(self) -> Scores | None:
        """Of the last evaluation on dev."""
        return self.lesson.scores

    def _build_work(self) -> TrainingSpec[SampleBatch]:
        return TrainingSpec(
            criterion=self._network,
            data=self.lesson.step_data(),
            export=self.export,
            evaluate=None if self.dev is None else self.evaluate,
            primary=self.task.primary if self.dev is not None else "loss",
            higher_is_better=self.dev is not None,
            shard_layers=Block,
            flops_per_token=3.0 * flops_per_token(self.encoder.config, mean_length(self.lessons)),
        )

    def evaluate(self, process: ProcessContext) -> dict[str, float]:
        """Scores on dev; thresholds are tuned on it first."""
        return dict(self.lesson.evaluate(self._network, process).metrics)

    def export(self, network: nn.Module, folder: Path) -> None:
        """A model folder of `network`, which is this run's own or a whole copy of it, with its card."""
        assert isinstance(network, MultiTaskNetwork)
        encoder, head = merged(network.encoder), network.head(self.name)
        model = TaskModel(
            encoder=encoder,
            tokenizer=self.tokenizer,
            tasks={self.name: self.task},
            heads={self.name: head},
            system=self._system,
        )
        save_task_model(folder, model)
        standard = head.standard
        class_name = None if standard is None else class_of(encoder, standard.kind)
        facts = self.lesson.facts(self.sources.model, to_mapping(self.config), class_name)
        (folder / "README.md").write_text(write_card(self.task, facts, self.scores), encoding="utf-8")

    def notes(self) -> list[str]:
        """What a person should know before the run."""
        width, lr = self.encoder.config.width, self.config.training.lr
        if width >= NARROW or lr >= SMALL_RATE:
            return self.lesson.notes()
        slow = (
            f"a learning rate of {lr:g} is for bodies of 768, and this one is {width} wide: training.lr=5e-4 suits it"
        )
        return [*self.lesson.notes(), slow]
