"""A fine-tuning run over one or more tasks: labelled files and a model become a `TrainingSpec`, then a model folder.

    one task         encoder (all, its upper layers, or low-rank adapters) and head are trained
    a list of tasks  the same with a head for each task; steps alternate between the tasks (`batches.py`)
    an added task    the encoder is frozen, and the head and adapters of the new task are trained; the folder keeps the
                     other tasks of the model, whose outputs stay the same to the last bit

With several tasks the best model is chosen by the mean of their primary dev scores, or by the score of one of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from spanlab.atomic_io import write_atomically
from spanlab.config import to_mapping
from spanlab.encoder import Encoder, load_model
from spanlab.encoder.block import Block
from spanlab.encoder.pretrained import class_of, locate_model
from spanlab.errors import ConfigError, did_you_mean
from spanlab.finetuning.batches import PROPORTIONAL, UNIFORM, MixedBatches
from spanlab.finetuning.config import MultitaskConfig, RunConfig, published_training
from spanlab.finetuning.defaults import HEADS, NOTHING_UNSET, RunScale, Unset
from spanlab.finetuning.multitask import check_task_name, read_task_list, task_config
from spanlab.finetuning.task_data import TaskData, TaskEntry
from spanlab.markdown import plain
from spanlab.tasks.adapters import TaskAdapters, adapt
from spanlab.tasks.card import CardFacts, CardTask, task_section, write_card, write_shared_card
from spanlab.tasks.config import TaskAdapterConfig
from spanlab.tasks.head import Head
from spanlab.tasks.model import TaskModel, load_task_model, save_task_model
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.result import CORRELATIONS
from spanlab.tasks.sample import SampleBatch
from spanlab.text import Tokenizer
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext
from spanlab.training.spec import TrainingSpec, evaluation_cost

COMBINED = "combined"
"""The dev metric that the best model of a multitask run is chosen by."""


class FinetuningRun:
    """Reads the files, loads the model and builds `spec`, the input of the training loop."""

    def __init__(
        self,
        task: str,
        config: RunConfig,
        *,
        model: str,
        train: str,
        dev: str | None = None,
        add_as: str | None = None,
        unset: Unset = NOTHING_UNSET,
    ) -> None:
        """Everything is read and checked; nothing is written.

        Args:
            task: a task, or `multitask`.
            config: the settings of the task, or those that the tasks of the list share.
            model: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
            train: the labelled file; for `multitask` the YAML list of tasks.
            dev: the labelled file that the best model is chosen by.
            add_as: add the task to those of the model under this name; None: a model with this task only.
            unset: the training settings that are chosen by the model and the number of examples.
        """
        self._model, self._train, self._add_as, self._chosen = model, train, add_as, unset
        self.config, self._shared = config, _shared_config(config)
        if add_as is not None:
            _check_addition(config)
        self.tasks = _read_tasks(task, config, train=train, dev=dev, name=add_as or task)
        self._scored = [data for data in self.tasks if data.dev is not None]
        self._check_choice()
        self._folder = locate_model(model)
        embedding = self._shared.task_embeddings if add_as is None else self._check_existing_tasks(add_as)
        base = load_model(self._folder)
        self.encoder, self._system = base.encoder, base.described.get("system")
        self.scale = _scale(self.tasks, self.encoder, config, added=add_as is not None)
        self.config = _choose(config, unset, self.scale)
        self._shared = _shared_config(self.config)
        self.tokenizer = Tokenizer.load(self._folder)
        for data in self.tasks:
            data.make_samples(base, self.tokenizer)
        self.network = self._build_network(embedding=embedding)
        self._best_score = -math.inf
        self._remarks: tuple[str, ...] = ()
        self.spec = self._build_spec()

    @property
    def training(self) -> TrainingConfig:
        """Training settings, with the learning rates of heads that are published to be faster than the encoder."""
        factors = self._shared.training.lr_factors
        by_task = {f"{HEADS}.{data.name}": self._head_factor(data) for data in self.tasks}
        published = {name: factor for name, factor in by_task.items() if factor is not None and HEADS not in factors}
        return replace(self._shared.training, lr_factors={**published, **factors})

    def _head_factor(self, data: TaskData) -> float | None:
        factors = data.config.training.lr_factors
        return (self.scale.slower(factors) if self._chosen.lr_factors else factors).get(HEADS)

    def _check_choice(self) -> None:
        choice, names = self._shared.choose_by, [data.name for data in self._scored]
        if choice != "mean" and choice not in names:
            fix = f"use mean or one of the tasks with a dev file: {', '.join(names) or 'none'}"
            raise ConfigError(f"'choose_by' is '{choice}'{did_you_mean(choice, ['mean', *names])}", fix=fix)

    def _check_existing_tasks(self, name: str) -> bool:
        """Reject the name of one of the model's tasks; returns whether these have task embeddings."""
        existing = load_task_model(self._folder)
        check_task_name(name, existing.tasks)
        return any(adapters.config.embedding for adapters in existing.adapters.values())

    def _build_network(self, *, embedding: bool) -> MultiTaskNetwork:
        adapters: dict[str, TaskAdapters] = {}
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self._shared.seed)
            heads = {data.name: data.task.head(self.encoder) for data in self.tasks}
            if self._add_as is None:
                adapt(self.encoder, self._shared.tuning)
            else:
                self.encoder.requires_grad_(False)
            for name, head in heads.items():
                config = self._adapters_config(head, embedding=embedding)
                if config.any:
                    adapters[name] = TaskAdapters(self.encoder, config)
        weights = {data.name: data.weight for data in self.tasks}
        learn_weights = self._shared.weighting == "uncertainty"
        return MultiTaskNetwork(self.encoder, heads, weights, adapters=adapters, learn_weights=learn_weights)

    def _adapters_config(self, head: Head, *, embedding: bool) -> TaskAdapterConfig:
        """The parameters of a task inside the encoder; an added task, with a frozen encoder, has LoRA and a pooler."""
        if self._add_as is None:
            return TaskAdapterConfig(embedding=embedding)
        tuning = self._shared.tuning
        pooler = head.uses_pooler and isinstance(self.encoder.pooler, nn.Linear)
        return TaskAdapterConfig(lora=tuning.lora, lora_alpha=tuning.lora_alpha, pooler=pooler, embedding=embedding)

    def _build_spec(self) -> TrainingSpec[SampleBatch]:
        shared = self._shared
        exponents = {"proportional": PROPORTIONAL, "temperature": 1 / shared.temperature, "uniform": UNIFORM}
        batches = [data.batches() for data in self.tasks]
        samples = [sample for data in self.tasks for sample in data.samples]
        mean_length = sum(sample.tokens for sample in samples) // sum(len(sample.sequences) for sample in samples)
        primary = COMBINED if self._from_list else self.tasks[0].task.primary
        return TrainingSpec(
            criterion=self.network,
            data=MixedBatches(batches, exponent=exponents[shared.sampling], seed=shared.seed),
            export=self.export,
            evaluate=self.evaluate if self._scored else None,
            primary=primary if self._scored else "loss",
            higher_is_better=bool(self._scored),
            shard_layers=Block,
            flops_per_token=self._passes() * self.encoder.flops_per_token(mean_length),
            find_unused_parameters=self._from_list,
            evaluation_cost=evaluation_cost(*self._evaluation_tokens()),
        )

    def _evaluation_tokens(self) -> tuple[int, float, float]:
        """Tokens of an evaluation, mean tokens of a step, and passes of a step, as `evaluation_cost` takes them."""
        steps = sum(data.batches().steps_per_epoch for data in self.tasks)
        step_tokens = sum(sample.tokens for data in self.tasks for sample in data.samples) / steps
        return sum(data.held_out_tokens() for data in self._scored), step_tokens, self._passes()

    def evaluation_cost(self) -> float:
        """The cost of an evaluation in training steps, even if it is negligible."""
        held_out_tokens, step_tokens, passes = self._evaluation_tokens()
        return held_out_tokens / (passes * step_tokens)

    @property
    def _from_list(self) -> bool:
        """Whether the tasks come from a list; scores, notes and the card then name them, even a single one."""
        return isinstance(self.config, MultitaskConfig)

    def _passes(self) -> float:
        """Cost of a step in forward passes: one for the activations and one for the weights where these are trained.

        Gradients of a frozen encoder are only needed for adapters inside it.
        """
        tuning, layers = self._shared.tuning, self.encoder.config.layers
        if self._add_as is None:
            trained = 1 - min(tuning.freeze, layers) / max(1, layers)
            return 1.0 + (1.0 if tuning.lora else 2.0) * trained
        adapters = self.network.adapters(self._add_as)
        return 2.0 if adapters is not None and adapters.changes_hidden_states else 1.0

    def evaluate(self, process: ProcessContext) -> dict[str, float]:
        """Dev scores, after thresholds are tuned; for a list `NAME/METRIC` and what the best model is chosen by."""
        scores = {data.name: data.evaluate(self.network, process).metrics for data in self._scored}
        combined = self._combine(scores)
        if combined[self.spec.primary] >= self._best_score:
            self._best_score, self._remarks = combined[self.spec.primary], self._compare_to_baselines()
        return combined

    def _combine(self, scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        if not self._from_list:
            return dict(scores[self.tasks[0].name])
        primary = {}
        for data in self._scored:  # as percentages: correlations are shares of 1
            scale = 100 if data.task.primary in CORRELATIONS else 1
            primary[data.name] = scores[data.name][data.task.primary] * scale
        chosen = primary.values() if self._shared.choose_by == "mean" else [primary[self._shared.choose_by]]
        named = {f"{name}/{metric}": value for name, metrics in scores.items() for metric, value in metrics.items()}
        return {**named, COMBINED: sum(chosen) / len(chosen)}

    def _compare_to_baselines(self) -> tuple[str, ...]:
        remarks = []
        for data in self._scored:
            remark = data.baseline_remark()
            if remark is not None:
                name = f"{data.name}: " if self._from_list else ""
                advice = self.scale.advise(self._shared.training, published_training(self.config))
                remarks.append(f"{name}no better than guessing on dev: {remark}. Try {advice}")
        return tuple(remarks)

    def remarks(self) -> tuple[str, ...]:
        """Remarks for the user after the run, about the best model of this session."""
        return self._remarks

    def export(self, network: nn.Module, folder: Path) -> None:
        """Write a model folder with its card; `network` is that of this run or an unsharded copy of it."""
        assert isinstance(network, MultiTaskNetwork)
        tasks = {data.name: data.task for data in self.tasks}
        heads = {name: network.head(name) for name in tasks}
        adapters = {name: parts for name in tasks if (parts := network.adapters(name)) is not None}
        if self._add_as is None:
            model = TaskModel(
                encoder=network.encoder,
                tokenizer=self.tokenizer,
                tasks=tasks,
                heads=heads,
                adapters=adapters,
                system=self._system,
            )
        else:
            with torch.random.fork_rng(devices=()):  # new layers draw random weights before the saved ones are loaded
                existing = load_task_model(self._folder)
            model = replace(
                existing,
                tasks={**existing.tasks, **tasks},
                heads={**existing.heads, **heads},
                adapters={**existing.adapters, **adapters},
            )
        save_task_model(folder, model)
        write_atomically(folder / "README.md", self._card(network).encode())

    def _card(self, network: MultiTaskNetwork) -> str:
        """The model card; an added task is a section at the end of the card that the model has."""
        settings, data = to_mapping(self.config), self.tasks[0]
        if self._add_as is not None:
            path = self._folder / "README.md"
            card = path.read_text(encoding="utf-8").rstrip() if path.is_file() else f"# {plain(self._folder.name)}"
            facts = data.card_facts(self._model, settings)
            section = task_section(CardTask(name=data.name, task=data.task, facts=facts, scores=data.scores))
            return f"{card}\n\n{section}\n"
        if self._from_list:
            tasks = [
                CardTask(name=data.name, task=data.task, facts=data.card_facts(self._model, {}), scores=data.scores)
                for data in self.tasks
            ]
            examples = sum(len(data.train) for data in self.tasks)
            base, train = Path(self._model).name, Path(self._train).name
            return write_shared_card(tasks, CardFacts(base=base, train=train, examples=examples, settings=settings))
        standard = network.head(data.name).standard
        class_name = None if standard is None else class_of(network.encoder, standard.kind)
        return write_card(data.task, data.card_facts(self._model, settings, class_name), data.scores)

    def notes(self) -> list[str]:
        """Notes for the user before the run: how settings were chosen, dropped examples, long texts."""
        explained = self.scale.explain(self._shared.training, self._chosen)
        notes = [] if explained is None else [explained]
        for data in self.tasks:
            notes += [f"{data.name}: {note}" for note in data.notes()] if self._from_list else data.notes()
        return notes


def choose_config(
    task: str, config: RunConfig, unset: Unset, *, model: str, train: str, dev: str | None, added: bool
) -> RunConfig:
    """The settings of a run with those that are open chosen, as the run itself would; no example is encoded."""
    tasks = _read_tasks(task, config, train=train, dev=dev, name=task)
    encoder = load_model(locate_model(model)).encoder
    return _choose(config, unset, _scale(tasks, encoder, config, added=added))


def _scale(tasks: Sequence[TaskData], encoder: Encoder, config: RunConfig, *, added: bool) -> RunScale:
    tuning = config.tuning
    return RunScale(
        width=encoder.config.width,
        examples=sum(len(data.train) for data in tasks),
        published_width=config.published_width,
        frozen=added or tuning.lora > 0 or tuning.freeze >= encoder.config.layers > 0,
    )


def _choose(config: RunConfig, unset: Unset, scale: RunScale) -> RunConfig:
    return replace(config, training=scale.choose(config.training, unset))


def _shared_config(config: RunConfig) -> MultitaskConfig:
    """The settings of a run over a list; one task is a list of one."""
    if isinstance(config, MultitaskConfig):
        return config
    return MultitaskConfig(seed=config.seed, tuning=config.tuning, training=config.training)


def _check_addition(config: RunConfig) -> None:
    if isinstance(config, MultitaskConfig):
        raise ConfigError("tasks are added one at a time", fix="use --add with spanlab finetune TASK")
    if config.tuning.freeze:
        fix = "leave tuning.freeze out; use tuning.lora for adapters"
        raise ConfigError("--add freezes the whole encoder", fix=fix)
    if config.tuning.lora and config.training.parallel == "fsdp":
        fix = "use training.parallel=ddp; a frozen encoder has no optimiser state to shard"
        raise ConfigError("adapters of an added task need the whole encoder on each process", fix=fix)


def _read_tasks(task: str, config: RunConfig, *, train: str, dev: str | None, name: str) -> tuple[TaskData, ...]:
    """The tasks of the list `train`, or the one task, called `name`."""
    if not isinstance(config, MultitaskConfig):
        return (TaskData(TaskEntry(name=name, task=task, train=train, dev=dev), config),)
    if dev is not None:
        raise ConfigError("--dev cannot be used with a list of tasks", fix="write dev: … for each task of the list")
    entries = read_task_list(train)
    return tuple(TaskData(entry, task_config(entry, source, config)) for entry, source in entries)
