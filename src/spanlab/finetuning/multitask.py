"""Several tasks on one encoder: a list of them and a model become the work of one run, and the run one model folder.

Each task keeps its own files, head, settings and scores; steps take turns among them (`mixing.py`). The best model is
the one with the best mean of the tasks' primary scores on dev, correlations counted in hundredths as percentages are.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from spanlab.config import merge, to_mapping
from spanlab.encoder import load_model
from spanlab.encoder.block import Block
from spanlab.encoder.flops import flops_per_token
from spanlab.encoder.pretrained import locate_model
from spanlab.errors import ConfigError, did_you_mean
from spanlab.finetuning.batches import PROPORTIONAL, UNIFORM, MixedData
from spanlab.finetuning.run import Sources, resolve_config
from spanlab.finetuning.task_data import Lesson, LessonFiles, mean_length
from spanlab.finetuning.task_list import ListedTask, MultitaskConfig, read_task_list
from spanlab.tasks.adapters import TaskAdapterConfig, TaskAdapters, adapt, merged
from spanlab.tasks.card import CardFacts, CardTask, write_shared_card
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.model import TaskModel, save_task_model
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.result import CORRELATIONS, Scores
from spanlab.tasks.sample import SampleBatch
from spanlab.text import Tokenizer
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext
from spanlab.training.spec import TrainingSpec

COMBINED = "combined"
"""The name of the score that the best model is chosen by."""

_HEADS = "heads"


class MultitaskTuning:
    """One run over several tasks, ready to be trained: `work` is what the loop takes."""

    def __init__(self, sources: Sources, config: MultitaskConfig) -> None:
        if sources.dev is not None:
            raise ConfigError("each task of the list has its own dev file", fix="write dev: … in the list, not --dev")
        self.sources, self.config = sources, config
        listed = read_task_list(sources.train)
        self.lessons = tuple(_lesson(each, config) for each in listed)
        self._scored = tuple(lesson for lesson in self.lessons if lesson.dev is not None)
        self._check_choice()
        folder = locate_model(sources.model)
        base = load_model(folder)
        self.tokenizer, self.encoder, self._system = Tokenizer.load(folder), base.encoder, base.described.get("system")
        for lesson in self.lessons:
            lesson.begin(base, self.tokenizer)
        self._network = self._build_network({each.entry.name: each.entry.weight for each in listed})
        self.work = self._build_work()

    @property
    def training(self) -> TrainingConfig:
        """The run's, with the rates of heads that are published to learn faster than the encoder."""
        own = {lesson.name: lesson.config.training.lr_factors.get(_HEADS) for lesson in self.lessons}
        given = self.config.training.lr_factors
        faster = {} if _HEADS in given else {f"{_HEADS}.{name}": by for name, by in own.items() if by is not None}
        return replace(self.config.training, lr_factors={**faster, **given})

    def _check_choice(self) -> None:
        names = [lesson.name for lesson in self._scored]
        if self.config.choose_by != "mean" and self.config.choose_by not in names:
            hint = did_you_mean(self.config.choose_by, ["mean", *names])
            fix = f"use mean or one of the tasks with a dev file: {', '.join(names) or 'none'}"
            raise ConfigError(f"'choose_by' is '{self.config.choose_by}'{hint}", fix=fix)

    def _build_network(self, weights: Mapping[str, float]) -> MultiTaskNetwork:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self.config.seed)
            heads = {lesson.name: lesson.task.head(self.encoder) for lesson in self.lessons}
            adapt(self.encoder, self.config.tuning)
        parts = TaskAdapterConfig(embedding=self.config.task_embeddings)
        adapters = {name: TaskAdapters(self.encoder, parts) for name in heads} if parts.any else {}
        learn_weights = self.config.weighting == "uncertainty"
        return MultiTaskNetwork(self.encoder, heads, weights, adapters=adapters, learn_weights=learn_weights)

    def _build_work(self) -> TrainingSpec[SampleBatch]:
        exponents = {"proportional": PROPORTIONAL, "temperature": 1 / self.config.temperature, "uniform": UNIFORM}
        return TrainingSpec(
            criterion=self._network,
            data=MixedData(
                {lesson.name: lesson.step_data() for lesson in self.lessons},
                exponent=exponents[self.config.sampling],
                seed=self.config.seed,
            ),
            export=self.export,
            evaluate=self.evaluate if self._scored else None,
            primary=COMBINED if self._scored else "loss",
            higher_is_better=bool(self._scored),
            shard_layers=Block,
            flops_per_token=3.0 * flops_per_token(self.encoder.config, mean_length(self.lessons)),
            idle_weights=True,
        )

    def evaluate(self, process: ProcessContext) -> dict[str, float]:
        """`NAME/METRIC` of every task with a dev file, and what the best model is chosen by."""
        found = {lesson.name: lesson.evaluate(self._network, process) for lesson in self._scored}
        metrics = {
            f"{name}/{metric}": value for name, scores in found.items() for metric, value in scores.metrics.items()
        }
        return {**metrics, COMBINED: self._combine(found)}

    def _combine(self, found: Mapping[str, Scores]) -> float:
        """The mean of the primary scores, or the one that is to decide."""
        by_task = {lesson.name: primary_score(found[lesson.name], lesson.task.primary) for lesson in self._scored}
        chosen = by_task.values() if self.config.choose_by == "mean" else [by_task[self.config.choose_by]]
        return sum(chosen) / len(chosen)

    def export(self, network: nn.Module, folder: Path) -> None:
        """A model folder of `network`, which is this run's own or a whole copy of it, with its card."""
        assert isinstance(network, MultiTaskNetwork)
        names = [lesson.name for lesson in self.lessons]
        adapters = {name: parts for name in names if (parts := network.adapters(name)) is not None}
        model = TaskModel(
            encoder=merged(network.encoder),
            tokenizer=self.tokenizer,
            tasks={lesson.name: lesson.task for lesson in self.lessons},
            heads={name: network.head(name) for name in names},
            adapters=adapters,
            system=self._system,
        )
        save_task_model(folder, model)
        (folder / "README.md").write_text(self._card(), encoding="utf-8")

    def _card(self) -> str:
        model = self.sources.model
        tasks = [
            CardTask(name=lesson.name, task=lesson.task, facts=lesson.facts(model, {}), scores=lesson.scores)
            for lesson in self.lessons
        ]
        files, examples = Path(self.sources.train).name, sum(len(lesson.train) for lesson in self.lessons)
        facts = CardFacts(base=Path(model).name, train=files, examples=examples, settings=to_mapping(self.config))
        return write_shared_card(tasks, facts)

    def notes(self) -> list[str]:
        """What a person should know before the run."""
        return [f"{lesson.name}: {note}" for lesson in self.lessons for note in lesson.notes()]


def _lesson(listed: ListedTask, config: MultitaskConfig) -> Lesson:
    """A task of the list with its own settings, and with those of the run where they are shared."""
    entry = listed.entry
    changes = merge({"data": config.data.of_all_tasks()}, entry.settings)
    own = resolve_config(entry.task, changes, listed.source.within("settings"))
    batch_size = entry.batch_size or _batch_size(own, config)
    training = replace(config.training, batch_size=batch_size, lr_factors=own.training.lr_factors)
    whole = replace(own, seed=config.seed, tuning=config.tuning, training=training)
    files = LessonFiles(task=entry.task, train=entry.train, dev=entry.dev)
    return Lesson(entry.name, files, whole)


def _batch_size(own: TaskConfig, config: MultitaskConfig) -> int:
    """The run's; a task that is published with smaller steps than most, whole documents, has no more than those."""
    published, asked = own.training.batch_size, config.training.batch_size
    return min(published, asked) if published < TaskConfig().training.batch_size else asked


def primary_score(scores: Scores, primary: str) -> float:
    """A task's primary score as a percentage; correlations are shares of 1."""
    return scores.metrics[primary] * (100 if primary in CORRELATIONS else 1)
