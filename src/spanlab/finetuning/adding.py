"""A task beside those that a model has: its head learns, with or without adapters of its own, and nothing else.

The encoder is not trained and the other heads are not even loaded; the folder that comes out holds their weights as
they were. So every earlier task's outputs stay what they are, to the last bit. A pooler, where the head reads one, is
the new task's own.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from spanlab.config import to_mapping
from spanlab.encoder import Encoder, load_model
from spanlab.encoder.block import Block
from spanlab.encoder.flops import flops_per_token
from spanlab.encoder.pretrained import locate_model
from spanlab.errors import ConfigError
from spanlab.finetuning.run import Sources
from spanlab.finetuning.task_data import Lesson, LessonFiles, mean_length
from spanlab.finetuning.task_list import check_name
from spanlab.tasks.adapters import TaskAdapterConfig, TaskAdapters
from spanlab.tasks.base import Head
from spanlab.tasks.card import CardTask, task_section
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.model import load_task_model, save_task_model
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.sample import SampleBatch
from spanlab.text import Tokenizer
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext
from spanlab.training.spec import TrainingSpec


class AddedTask:
    """One run, ready to be trained: `work` is what the loop takes."""

    def __init__(self, sources: Sources, config: TaskConfig) -> None:
        assert sources.add_as is not None
        self.sources, self.config, self.name = sources, config, sources.add_as
        self._folder = locate_model(sources.model)
        before = load_task_model(self._folder)
        check_name(self.name, before.tasks)
        _check_tuning(config)
        self.lesson = Lesson(self.name, LessonFiles(task=sources.task, train=sources.train, dev=sources.dev), config)
        base = load_model(self._folder)
        self.encoder = base.encoder
        self.lesson.begin(base, Tokenizer.load(self._folder))
        embedded = any(parts.config.embedding for parts in before.adapters.values())
        self._network = self._build_network(embedding=embedded)
        self.work = self._build_work()

    @property
    def training(self) -> TrainingConfig:
        """How it is trained."""
        return self.config.training

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """The new task alone."""
        return (self.lesson,)

    def _build_network(self, *, embedding: bool) -> MultiTaskNetwork:
        """The encoder as it is, the new head, and what is the task's own in the encoder."""
        tuning = self.config.tuning
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self.config.seed)
            head = self.lesson.task.head(self.encoder)
            parts = TaskAdapterConfig(
                lora=tuning.lora,
                lora_alpha=tuning.lora_alpha,
                pooler=_reads_pooler(head, self.encoder),
                embedding=embedding,
            )
            adapters = {self.name: TaskAdapters(self.encoder, parts)} if parts.any else {}
        self.encoder.requires_grad_(False)
        return MultiTaskNetwork(self.encoder, {self.name: head}, adapters=adapters)

    def _build_work(self) -> TrainingSpec[SampleBatch]:
        dev = self.lesson.dev
        return TrainingSpec(
            criterion=self._network,
            data=self.lesson.step_data(),
            export=self.export,
            evaluate=None if dev is None else self.evaluate,
            primary=self.lesson.task.primary if dev is not None else "loss",
            higher_is_better=dev is not None,
            shard_layers=Block,
            flops_per_token=self._passes() * flops_per_token(self.encoder.config, mean_length(self.lessons)),
        )

    def _passes(self) -> float:
        """What a step computes, in forward passes: the gradient goes back through the encoder for parts inside it."""
        adapters = self._network.adapters(self.name)
        return 2.0 if adapters is not None and adapters.changes_hidden_states else 1.0

    def evaluate(self, process: ProcessContext) -> dict[str, float]:
        """The new task's scores on dev; thresholds are tuned on it first."""
        return dict(self.lesson.evaluate(self._network, process).metrics)

    def export(self, network: nn.Module, folder: Path) -> None:
        """The model's own folder read afresh, with the new task beside the others."""
        assert isinstance(network, MultiTaskNetwork)
        with torch.random.fork_rng(devices=()):  # new layers draw weights before theirs are read
            before = load_task_model(self._folder)
        parts = network.adapters(self.name)
        model = replace(
            before,
            tasks={**before.tasks, self.name: self.lesson.task},
            heads={**before.heads, self.name: network.head(self.name)},
            adapters=before.adapters if parts is None else {**before.adapters, self.name: parts},
        )
        save_task_model(folder, model)
        (folder / "README.md").write_text(self._card(), encoding="utf-8")

    def _card(self) -> str:
        """The card that was there, and the new task's section."""
        lesson, path = self.lesson, self._folder / "README.md"
        facts = lesson.facts(self.sources.model, to_mapping(self.config))
        added = task_section(CardTask(name=self.name, task=lesson.task, facts=facts, scores=lesson.scores))
        before = path.read_text(encoding="utf-8").rstrip() if path.is_file() else f"# {self._folder.name}"
        return f"{before}\n\n{added}\n"

    def notes(self) -> list[str]:
        """What a person should know before the run."""
        return self.lesson.notes()


def _reads_pooler(head: Head, encoder: Encoder) -> bool:
    return head.uses_pooler and isinstance(encoder.pooler, nn.Linear)


def _check_tuning(config: TaskConfig) -> None:
    if config.tuning.freeze:
        fix = "leave tuning.freeze out, and take tuning.lora for adapters"
        raise ConfigError("a task that is added leaves the whole encoder as it is", fix=fix)
    if config.tuning.lora and config.training.parallel == "fsdp":
        fix = "take training.parallel=ddp: the frozen encoder has no state to shard"
        raise ConfigError("adapters of an added task need the whole encoder on each process", fix=fix)
