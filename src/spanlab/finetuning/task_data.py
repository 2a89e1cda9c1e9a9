"""One task of a run: its files, its training samples, and its scores on dev.

Dev is scored by the code that predicts: the same windows, the same decoding, and the same thresholds, which are tuned
on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from spanlab.config import Above, AtLeast, AtMost, Bounded
from spanlab.encoder import Model
from spanlab.errors import ConfigError
from spanlab.finetuning.augmentation import refilled_copies
from spanlab.finetuning.baselines import compare_to_baseline
from spanlab.finetuning.batches import TaskBatches
from spanlab.finetuning.dev_split import split_examples
from spanlab.tasks.card import CardFacts
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.examples import Examples, check_known_labels, encode_examples, fit_task, read_labelled
from spanlab.tasks.fitted import windower_for
from spanlab.tasks.formats.aligned import short_name
from spanlab.tasks.generation.config import GenerationConfig
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.outputs import group_by_example
from spanlab.tasks.predict import compute_outputs
from spanlab.tasks.result import Mistake, Result, Scores
from spanlab.tasks.sample import Sample
from spanlab.tasks.table import find_task
from spanlab.tasks.unknown_tokens import UnknownTokens
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from spanlab.training.distributed import ProcessContext, current_process


@dataclass(frozen=True, kw_only=True)
class TaskEntry(Bounded):
    """One task of a run and its files, as an entry of a multitask list gives them."""

    name: str
    """Name of its head, by which `--task` selects it."""
    task: str
    """The task, such as ner."""
    train: str
    """Its labelled training file; paths are relative to the list."""
    dev: str | None = None
    """Its dev file; None: none."""
    weight: Annotated[float, Above(0), AtMost(1_000_000)] = 1.0
    """Factor on its loss."""
    batch_size: Annotated[int, AtLeast(1), AtMost(1_000_000)] | None = None
    """Samples per step; None: that of the run, or the published one if samples are whole documents."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Keys of the task and its `data` section, as `spanlab finetune` takes them."""


class TaskData:
    """The examples of one task; `make_samples` encodes them for a model."""

    def __init__(self, entry: TaskEntry, config: TaskConfig) -> None:
        """Read and check the files, and fit the task's labels to the training file."""
        task_class = find_task(entry.task)
        self.name, self.weight, self.config = entry.name, entry.weight, config
        self.train = read_labelled(task_class, entry.train, config.data)
        self.task = fit_task(task_class, config, self.train)
        self.dev = None if entry.dev is None else read_labelled(task_class, entry.dev, config.data)
        self.dev_is_split = config.data.dev_share > 0
        """Whether dev is a part of the training file."""
        if self.dev is not None:
            if self.dev_is_split:
                raise ConfigError("data.dev_share is for runs without a dev file", fix="leave out one of the two")
            check_known_labels(self.task, self.dev)
        elif self.dev_is_split:
            self.train, self.dev = split_examples(self.train, task_class.shape, config.data.dev_share, config.seed)
        self.samples: list[Sample] = []
        self.scores: Scores | None = None
        """Scores of the last evaluation on dev."""
        self._windower: Windower | None = None
        self._unknown: UnknownTokens | None = None
        self._long_texts = 0
        self._dev_samples: Sequence[Sample] | None = None
        self._dev_results: Sequence[Result] = ()

    def make_samples(self, model: Model, tokenizer: Tokenizer) -> None:
        """Encode the training examples, and with `tuning.augment` add copies refilled by the model's MLM head."""
        self._windower = windower_for(model.encoder.config, tokenizer, self.config.data)
        self.samples = self._encode(self.train, labelled=True)
        self._unknown = UnknownTokens(tokenizer)
        self._unknown.add_rows(self.train.rows, self.samples)
        self._long_texts = _count_long_texts(self.samples, len(self.train), self._windower.length)
        training, tuning = self.config.training, self.config.tuning
        if tuning.augment:
            self.samples += refilled_copies(
                self.samples,
                model,
                tokenizer,
                tuning,
                seed=self.config.seed,
                batch_tokens=self.config.data.batch_tokens,
                process=current_process(training.device, training.precision),
            )

    def batches(self) -> TaskBatches:
        """The batches of the training samples."""
        training, data = self.config.training, self.config.data
        return TaskBatches(
            self.samples,
            task=self.name,
            batch_size=training.batch_size,
            batch_tokens=data.batch_tokens,
            accumulate=training.accumulate,
            seed=self.config.seed,
            group_by_length=data.group_by_length,
            sources=[f"{short_name(self.train.path)}:{row.line}" for row in self.train.rows],
        )

    def held_out_tokens(self) -> int:
        """Tokens that an evaluation reads and generates."""
        if self.dev is None:
            return 0
        generated = self.config.max_new_tokens * len(self.dev) if isinstance(self.config, GenerationConfig) else 0
        return sum(sample.tokens for sample in self._encoded_dev()) + generated

    def _encoded_dev(self) -> Sequence[Sample]:
        assert self.dev is not None
        if self._dev_samples is None:
            self._dev_samples = self._encode(self.dev, labelled=False)
        return self._dev_samples

    def evaluate(self, network: MultiTaskNetwork, process: ProcessContext) -> Scores:
        """Scores on dev, after thresholds are tuned on it."""
        assert self.dev is not None
        dev_samples = self._encoded_dev()
        samples = {self.name: dev_samples}
        outputs = compute_outputs(network, samples, batch_tokens=self.config.data.batch_tokens, process=process)
        computed = group_by_example(self.dev.examples, dev_samples, outputs[self.name])
        self.task = computed.tune(self.task)
        self._dev_results = computed.decode(self.task)
        self.scores = self.task.score(self.dev.examples, self._dev_results)
        return self.scores

    def mistakes(self) -> list[Mistake]:
        """Errors of the last evaluation, worst first."""
        if self.dev is None or not self._dev_results:
            return []
        pairs = zip(self.dev.examples, self._dev_results, strict=True)
        mistakes = [mistake for pair in pairs if (mistake := self.task.mistake(*pair)) is not None]
        return sorted(mistakes, key=lambda mistake: -mistake.badness)

    def notes(self) -> list[str]:
        """Notes for the user before the run: odd lines, dropped examples, long texts."""
        files = [examples for examples in (self.train, self.dev) if examples is not None]
        notes = [remark for examples in files for remark in examples.remarks]
        notes += [
            f"{examples.path}: {count} examples dropped ({problem})"
            for examples in files
            for problem, count in examples.dropped.items()
        ]
        notes += self.task.notes(self.config, () if self.dev is None else self.dev.examples)
        if self._long_texts:
            assert self._windower is not None
            how = "truncated" if self.config.data.long_text == "truncate" else "split into windows"
            share = f"{self._long_texts} of {len(self.train)}"
            notes.append(f"{share} training texts are longer than {self._windower.length} tokens: {how}")
        if self.dev is None:
            notes.append(
                "without dev the newest model is kept, however good it is; data.dev_share=0.1 holds out a tenth of "
                "the training examples to choose the best model by"
            )
        elif self.dev_is_split:
            notes.append(
                f"{len(self.dev):,} of {len(self.train) + len(self.dev):,} training examples are held out as dev"
            )
        if self._unknown is not None:
            notes += [f"{self.train.path}: {remark}" for remark in self._unknown.remarks]
        return notes

    def baseline_remark(self) -> str | None:
        """A remark if the last evaluation is no better than one answer to everything."""
        if self.dev is None or self.scores is None:
            return None
        return compare_to_baseline(self.dev.examples, self._dev_results, self.scores)

    def card_facts(self, base: str, settings: Mapping[str, object], transformers_class: str | None = None) -> CardFacts:
        """Facts for the model card; `base` is the model that was fine-tuned."""
        return CardFacts(
            base=Path(base).name,
            train=short_name(self.train.path),
            examples=len(self.train),
            dev=self._dev_name(),
            dropped=self.train.dropped,
            settings=settings,
            transformers_class=transformers_class,
        )

    def _dev_name(self) -> str | None:
        if self.dev is None:
            return None
        name = short_name(self.dev.path)
        return f"{self.config.data.dev_share:.0%} of {name}, held out" if self.dev_is_split else name

    def _encode(self, examples: Examples, *, labelled: bool) -> list[Sample]:
        assert self._windower is not None, "make_samples comes first"
        return encode_examples(self.task, examples.examples, examples.rows, self._windower, labelled=labelled)


def _count_long_texts(samples: Sequence[Sample], examples: int, length: int) -> int:
    """Examples with several windows, one of them full, or truncated; several short samples are not windows."""
    windows, full = [0] * examples, [False] * examples
    for sample in samples:
        windows[sample.example] += 2 if sample.truncated else 1
        full[sample.example] |= sample.truncated or sample.longest >= length
    return sum(count > 1 and is_full for count, is_full in zip(windows, full, strict=True))
