"""One task of a run: its files read, its samples, and its scores on dev.

A run has one lesson, or several on one encoder; each is read, encoded and scored the same way. Dev is scored by the
path that predicts: the same windows, the same decoding, the same thresholds, which are tuned there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spanlab.encoder import Model
from spanlab.finetuning.augmentation import refilled_copies
from spanlab.finetuning.batches import SampleData
from spanlab.tasks.card import CardFacts
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.examples import Examples, check_known_labels, encode_examples, fit_task, read_labelled
from spanlab.tasks.model import windower_for
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.predict import compute
from spanlab.tasks.result import Mistake, Result, Scores
from spanlab.tasks.sample import Sample
from spanlab.tasks.table import find_task
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from spanlab.training.distributed import ProcessContext, current_process


@dataclass(frozen=True, kw_only=True)
class LessonFiles:
    """Which task, and from what it is learnt."""

    task: str
    train: str
    dev: str | None = None


class Lesson:
    """One task with its examples; `begin` puts them before an encoder."""

    def __init__(self, name: str, files: LessonFiles, config: TaskConfig) -> None:
        """`name` is that of the head."""
        kind = find_task(files.task)
        self.name, self.config = name, config
        self.train = read_labelled(kind, files.train, config.data)
        self.task = fit_task(kind, config, self.train)
        self.dev = None if files.dev is None else read_labelled(kind, files.dev, config.data)
        if self.dev is not None:
            check_known_labels(self.task, self.dev)
        self.scores: Scores | None = None
        self.samples: list[Sample] = []
        self._framing: Windower | None = None
        self._windowed = 0
        self._dev_results: Sequence[Result] = ()
        self._dev_samples: Sequence[Sample] | None = None

    def begin(self, base: Model, tokenizer: Tokenizer) -> None:
        """Make the training samples, copies by the model's own MLM head among them where they are asked for."""
        self._framing = windower_for(base.encoder, tokenizer, self.config.data)
        self.samples = self._encode(self.train, labelled=True)
        self._windowed = _count_windowed(self.samples, len(self.train), self._framing.length)
        training, tuning = self.config.training, self.config.tuning
        if tuning.augment:
            self.samples += refilled_copies(
                self.samples,
                base,
                tokenizer,
                tuning,
                seed=self.config.seed,
                batch_tokens=self.config.data.batch_tokens,
                process=current_process(training.device, training.precision),
            )

    def step_data(self) -> SampleData:
        """The batches of its samples."""
        training, data = self.config.training, self.config.data
        return SampleData(
            self.samples,
            task=self.name,
            batch_size=training.batch_size,
            batch_tokens=data.batch_tokens,
            accumulate=training.accumulate,
            seed=self.config.seed,
            group_by_length=data.group_by_length,
        )

    def evaluate(self, network: MultiTaskNetwork, process: ProcessContext) -> Scores:
        """Scores on dev; thresholds are tuned on it first."""
        assert self.dev is not None
        if self._dev_samples is None:
            self._dev_samples = self._encode(self.dev, labelled=False)
        computed = compute(
            network,
            self.dev.examples,
            self._dev_samples,
            name=self.name,
            batch_tokens=self.config.data.batch_tokens,
            process=process,
        )
        self.task = computed.tune(self.task)
        self._dev_results = computed.decode(self.task)
        self.scores = self.task.score(self.dev.examples, self._dev_results)
        return self.scores

    def mistakes(self) -> list[Mistake]:
        """What the last evaluation got wrong, the worst first."""
        if self.dev is None or not self._dev_results:
            return []
        found = (self.task.mistake(*pair) for pair in zip(self.dev.examples, self._dev_results, strict=True))
        return sorted((mistake for mistake in found if mistake is not None), key=lambda mistake: -mistake.badness)

    def notes(self) -> list[str]:
        """What a person should know before the run."""
        notes = []
        for found in (self.train, *([self.dev] if self.dev is not None else [])):
            notes += [f"{found.path}: {count} examples left out ({kind})" for kind, count in found.dropped.items()]
        if self._windowed:
            assert self._framing is not None
            how = "cut off" if self.config.data.long_text == "truncate" else "computed in windows"
            share = f"{self._windowed} of {len(self.train)}"
            notes.append(f"{share} training texts are longer than {self._framing.length} tokens: {how}")
        return notes

    def facts(self, base: str, settings: Mapping[str, object], transformers_class: str | None = None) -> CardFacts:
        """What the card of a model says about its examples; `base` is the model that was trained."""
        return CardFacts(
            base=Path(base).name,
            train=Path(self.train.path).name,
            examples=len(self.train),
            dev=None if self.dev is None else Path(self.dev.path).name,
            dropped=self.train.dropped,
            settings=settings,
            transformers_class=transformers_class,
        )

    def _encode(self, found: Examples, *, labelled: bool) -> list[Sample]:
        assert self._framing is not None
        return encode_examples(self.task, found.examples, found.rows, self._framing, labelled=labelled)


def mean_length(lessons: Sequence[Lesson]) -> int:
    """Tokens of a sequence, over all training samples."""
    samples = [sample for lesson in lessons for sample in lesson.samples]
    return sum(sample.tokens for sample in samples) // sum(len(sample.sequences) for sample in samples)


def _count_windowed(samples: Sequence[Sample], examples: int, length: int) -> int:
    """How many examples have a full window and another, or were cut; several short samples are no windows."""
    windows, full = [0] * examples, [False] * examples
    for sample in samples:
        windows[sample.example] += 2 if sample.truncated else 1
        full[sample.example] |= sample.truncated or sample.longest >= length
    return sum(count > 1 and filled for count, filled in zip(windows, full, strict=True))
