"""Fine-tuning: a labelled file and a model become the work of a run, and the run a model folder.

What is trained is the same loop as in pre-training. Dev is scored by the path that predicts: the same windows, the same
decoding, the same thresholds, which are tuned there and kept with the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spanlab.configuration import Source, from_mapping, merge, to_mapping
from spanlab.encoder import Model, load_model
from spanlab.encoder.accounting import flops_per_token
from spanlab.encoder.block import Block
from spanlab.encoder.weights import class_of, locate_model
from spanlab.errors import ConfigError
from spanlab.tasks.adapting import adapt, merged
from spanlab.tasks.augmentation import refilled_copies
from spanlab.tasks.card import CardFacts, write_card
from spanlab.tasks.criterion import TaskCriterion
from spanlab.tasks.data import SampleData
from spanlab.tasks.examples import Examples, check_known_labels, encode_examples, read_labelled
from spanlab.tasks.model import TaskModel, framing_for, save_task_model
from spanlab.tasks.prediction import compute
from spanlab.tasks.result import Mistake, Result, Scores
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.settings import TaskConfig
from spanlab.tasks.table import find_task
from spanlab.text import Tokenizer
from spanlab.training.place import Place, find_place
from spanlab.training.work import Work


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a run is made of."""

    task: str
    model: str
    """A model folder, a run folder or a Hugging Face id."""
    train: str
    dev: str | None = None


def resolve_config(task: str, changes: Mapping[str, Any], source: Source | None = None) -> TaskConfig:
    """A task's published settings with `changes` laid over them, every key checked."""
    kind = find_task(task)
    mapping = merge(to_mapping(kind.Config()), changes)
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
        kind = find_task(sources.task)
        self.sources, self.config, self.name = sources, config, sources.task
        self.train = read_labelled(kind, sources.train, config.data)
        self.task = kind.learn(config, self.train.examples)
        self.dev = self._read_dev()
        folder = locate_model(sources.model)
        base = load_model(folder)
        self.tokenizer, self.encoder, self._system = Tokenizer.load(folder), base.encoder, base.described.get("system")
        self._framing = framing_for(self.encoder, self.tokenizer, config.data)
        samples = self._encode(self.train, labelled=True)
        self._windowed = _count_windowed(samples, len(self.train), self._framing.cutting.length)
        samples += self._augmented(samples, base)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(config.seed)
            self.head = self.task.head(self.encoder)
            adapt(self.encoder, config.tuning)
        self.scores: Scores | None = None
        self.dev_results: Sequence[Result] = ()
        self._dev_samples: Sequence[Sample] | None = None
        self._network = TaskCriterion(self.encoder, {self.name: self.head})
        self.work = self._build_work(samples)

    def _encode(self, found: Examples, *, labelled: bool) -> list[Sample]:
        return encode_examples(self.task, found.examples, found.rows, self._framing, labelled=labelled)

    def _read_dev(self) -> Examples | None:
        if self.sources.dev is None:
            return None
        dev = read_labelled(type(self.task), self.sources.dev, self.config.data)
        check_known_labels(self.task, dev)
        return dev

    def _augmented(self, samples: Sequence[Sample], base: Model) -> list[Sample]:
        if not self.config.tuning.augment:
            return []
        training = self.config.training
        return refilled_copies(
            samples,
            base,
            self.tokenizer,
            self.config.tuning,
            seed=self.config.seed,
            batch_tokens=self.config.data.batch_tokens,
            place=find_place(training.device, training.precision),
        )

    def _build_work(self, samples: Sequence[Sample]) -> Work[SampleBatch]:
        training, data = self.config.training, self.config.data
        mean_length = sum(sample.tokens for sample in samples) // sum(len(sample.sequences) for sample in samples)
        return Work(
            criterion=self._network,
            data=SampleData(
                samples,
                task=self.name,
                batch_size=training.batch_size,
                batch_tokens=data.batch_tokens,
                accumulate=training.accumulate,
                seed=self.config.seed,
                group_by_length=data.group_by_length,
            ),
            export=self.export,
            evaluate=None if self.dev is None else self.evaluate,
            primary=self.task.primary if self.dev is not None else "loss",
            higher_is_better=self.dev is not None,
            shard_layers=Block,
            flops_per_token=3.0 * flops_per_token(self.encoder.config, mean_length),
        )

    def evaluate(self, place: Place) -> dict[str, float]:
        """Scores on dev; thresholds are tuned on it first."""
        assert self.dev is not None
        if self._dev_samples is None:
            self._dev_samples = self._encode(self.dev, labelled=False)
        computed = compute(
            self._network,
            self.dev.examples,
            self._dev_samples,
            name=self.name,
            batch_tokens=self.config.data.batch_tokens,
            place=place,
        )
        self.task = computed.tune(self.task)
        self.dev_results = computed.decode(self.task)
        self.scores = self.task.score(self.dev.examples, self.dev_results)
        return dict(self.scores.metrics)

    def export(self, network: nn.Module, folder: Path) -> None:
        """A model folder of `network`, which is this run's own or a whole copy of it, with its card."""
        assert isinstance(network, TaskCriterion)
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
        facts = CardFacts(
            base=Path(self.sources.model).name,
            train=Path(self.train.path).name,
            examples=len(self.train),
            dev=None if self.dev is None else Path(self.dev.path).name,
            dropped=self.train.dropped,
            settings=to_mapping(self.config),
            transformers_class=None if standard is None else class_of(encoder, standard.kind),
        )
        (folder / "README.md").write_text(write_card(self.task, facts, self.scores), encoding="utf-8")

    def mistakes(self) -> list[Mistake]:
        """What the last evaluation got wrong, the worst first."""
        if self.dev is None or not self.dev_results:
            return []
        found = (self.task.mistake(*pair) for pair in zip(self.dev.examples, self.dev_results, strict=True))
        return sorted((mistake for mistake in found if mistake is not None), key=lambda mistake: -mistake.badness)

    def notes(self) -> list[str]:
        """What a person should know before the run."""
        notes = []
        for found in (self.train, *([self.dev] if self.dev is not None else [])):
            notes += [f"{found.path}: {count} examples left out ({kind})" for kind, count in found.dropped.items()]
        if self._windowed:
            how = "cut off" if self.config.data.long_text == "truncate" else "computed in windows"
            share = f"{self._windowed} of {len(self.train)}"
            notes.append(f"{share} training texts are longer than {self._framing.cutting.length} tokens: {how}")
        return notes


def _count_windowed(samples: Sequence[Sample], examples: int, length: int) -> int:
    """How many examples have a full window and another, or were cut; several short samples are no windows."""
    windows, full = [0] * examples, [False] * examples
    for sample in samples:
        windows[sample.example] += 2 if sample.truncated else 1
        full[sample.example] |= sample.truncated or sample.longest >= length
    return sum(count > 1 and filled for count, filled in zip(windows, full, strict=True))
