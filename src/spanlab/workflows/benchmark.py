"""`spanlab benchmark`: how fast a model predicts here, in every precision and by every engine that is installed.

The same inputs are answered one at a time and in bulk, by all engines in turn, for several rounds. What leaves is the
median of the rounds with the lowest and the highest: on a machine that does nothing else they are close together, and
where they are not, neither is a ratio of two of them to be trusted.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError, SpanlabError, UnknownTokensWarning
from spanlab.inference.load import load, load_torch
from spanlab.inference.onnx_folder import is_exported
from spanlab.inference.predictor import Predictor, readable_row
from spanlab.machine import EXTRAS, available_cores, int8_instructions, is_installed, name_cpu
from spanlab.samples import load as load_passages
from spanlab.samples.export import files_of
from spanlab.tasks.classification import Classification
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.outputs import embedding_samples

ROUNDS = 5
_SECONDS = 1.5
"""About how long a round of fp32 takes, one at a time and in bulk."""
_FEWEST, _MOST = 8, 2000

Run = Callable[[Sequence[Row]], object]
"""Answers all rows in bulk; one row is one at a time."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Texts a second: the median of the rounds, the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, count: int, seconds: Sequence[float]) -> "Rate":
        """The rate of so many texts in each round's seconds."""
        rates = [count / each for each in seconds]
        return cls(median=median(rates), low=min(rates), high=max(rates))

    def __str__(self) -> str:
        return f"{self.median:,.1f} ({self.low:,.1f} to {self.high:,.1f})"


@dataclass(frozen=True, kw_only=True)
class EngineSpeed:
    """One engine: texts a second alone and in bulk, and tokens a second in bulk."""

    single: Rate
    bulk: Rate
    tokens: float


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What was measured, on what."""

    model: str
    measured: str
    """The task, or "embeddings"."""
    cpu: str
    cores: int
    threads: int
    int8_instructions: str | None
    texts: int
    tokens_per_text: float
    rounds: int
    engines: Mapping[str, EngineSpeed]
    left_out: Mapping[str, str]
    """Engines that were not measured, and why."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Engines:
    """What can answer the inputs of a task of a model, or embed its texts."""

    runs: Mapping[str, Run]
    left_out: Mapping[str, str]
    predictor: Predictor
    """The first of them, which reads the inputs."""
    task: str | None
    """None: texts are embedded."""

    def rows(self, source: str | None) -> list[Row]:
        """The inputs in a file, or passages of the almanac as the task takes them."""
        task = Classification if self.task is None else type(self.predictor.model.tasks[self.task])
        if source is not None:
            columns = () if self.task is None else self.predictor.columns_for(source, [self.task])
            return [readable_row(row) for row in read_rows(source, task.shape, columns)]
        passages = [passage for passage in load_passages() if passage.language == "en"]
        return [Row(values=record) for record in files_of(task.name).examples(passages)]

    def count_tokens(self, rows: Sequence[Row]) -> int:
        """The tokens that the encoder reads for them, special tokens included."""
        if self.task is None:
            texts = [str(row.values["text"]) for row in rows]
            samples = embedding_samples(self.predictor.embedding_windower(), texts)
        else:
            samples = list(self.predictor.encode_rows(rows, tasks=[self.task]).samples[self.task])
        return sum(sample.tokens for sample in samples)


def benchmark(
    model: str,
    *,
    source: str | None = None,
    task: str | None = None,
    rounds: int = ROUNDS,
    seconds: float = _SECONDS,
    progress: Callable[[str], None] = lambda line: None,
) -> Benchmark:
    """Measure a model of any kind, also an exported one; without `source`, on passages of the almanac.

    Args:
        model: a model folder, an exported folder, a run, a name in `spanlab models` or a Hugging Face id.
        source: a file of inputs.
        task: which of the model's tasks; with several and none named, texts are embedded.
        rounds: how often every engine answers.
        seconds: about how long the first engine answers in a round, one at a time and in bulk.
        progress: is told what is done.
    """
    with warnings.catch_warnings(), open_engines(model, task, progress) as engines:
        warnings.simplefilter("ignore", UnknownTokensWarning)  # a text of another language takes as long
        rows = engines.rows(source)[:_MOST]
        if not rows:
            raise InputError("no inputs to measure with", path=source)
        single, bulk = _choose_sizes(next(iter(engines.runs.values())), rows, seconds)
        timed = time_engines(engines.runs, rows[:single], rows[:bulk], rounds, progress)
        tokens = engines.count_tokens(rows[:bulk])
    return Benchmark(
        model=model,
        measured=engines.task or "embeddings",
        cpu=name_cpu(),
        cores=available_cores(),
        threads=_threads(engines.predictor),
        int8_instructions=int8_instructions(),
        texts=bulk,
        tokens_per_text=tokens / bulk,
        rounds=rounds,
        engines={
            name: EngineSpeed(
                single=Rate.of(single, alone),
                bulk=Rate.of(bulk, together),
                tokens=Rate.of(tokens, together).median,
            )
            for name, (alone, together) in timed.items()
        },
        left_out=engines.left_out,
    )


def time_engines(
    runs: Mapping[str, Run],
    single: Sequence[Row],
    bulk: Sequence[Row],
    rounds: int,
    progress: Callable[[str], None] = lambda line: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, tuple[list[float], list[float]]]:
    """The seconds of each engine in each round, one at a time and in bulk, by `clock`. A first round is a warm-up."""
    timed: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in runs}
    for number in range(rounds + 1):
        progress(f"round {number} of {rounds}" if number else "warm-up")
        for name, run in runs.items():
            start = clock()
            for row in single:
                run([row])
            middle = clock()
            run(bulk)
            if number:
                timed[name][0].append(middle - start)
                timed[name][1].append(clock() - middle)
    return timed


def _choose_sizes(run: Run, rows: Sequence[Row], seconds: float) -> tuple[int, int]:
    """How many inputs one at a time, and how many in bulk, take about so many seconds."""
    probe = rows[:_FEWEST]
    run(probe[:1])
    start = time.perf_counter()
    for row in probe:
        run([row])
    count = max(_FEWEST, round(seconds * len(probe) / (time.perf_counter() - start)))
    return min(count, len(rows)), min(2 * count, len(rows))


# ---- the engines


@contextmanager
def open_engines(model: str, task: str | None, progress: Callable[[str], None]) -> Iterator[Engines]:
    """Every engine that a model runs on here; exported graphs are in a folder that goes at the end."""
    folder = Path(model).expanduser()
    runs: dict[str, Run] = {}
    left_out: dict[str, str] = {}
    with TemporaryDirectory() as scratch:
        if is_exported(folder):
            predictor: Predictor = load(folder)
            chosen = _chosen_task(predictor, task)
            runs[f"onnx {predictor.precision}"] = _run_of(predictor, chosen)
        else:
            progress("loading the model in every precision")
            predictors = torch_predictors(model)
            predictor = predictors["fp32"]
            chosen = _chosen_task(predictor, task)
            runs |= {name: _run_of(each, chosen) for name, each in predictors.items()}
            for name, make in (("onnx", _onnx_runs), ("transformers", _transformers_runs)):
                missing = [extra for extra in _EXTRAS_OF[name] if not all(map(is_installed, EXTRAS[extra]))]
                if missing:
                    left_out[name] = f"pip install 'spanlab[{missing[0]}]'"
                    continue
                progress(f"preparing {name}")
                try:
                    runs |= make(model, predictor, chosen, Path(scratch))
                except SpanlabError as error:
                    left_out[name] = error.cause if isinstance(error, InputError) else str(error)
        yield Engines(runs=runs, left_out=left_out, predictor=predictor, task=chosen)


_EXTRAS_OF = {"onnx": ("onnx",), "transformers": ("hf",)}


def torch_predictors(model: str) -> dict[str, Predictor]:
    """One model in every precision that this CPU has; they share its tensors."""
    from spanlab.inference.precision import precisions_here
    from spanlab.inference.torch_predictor import TorchPredictor

    exact = load_torch(model, device="cpu", precision="fp32")
    others: dict[str, Predictor] = {
        name: TorchPredictor(exact.model, replace(exact.process, precision=name))
        for name in precisions_here(exact.model.encoder)
        if name != "fp32"
    }
    return {"fp32": exact, **others}


def _chosen_task(predictor: Predictor, task: str | None) -> str | None:
    return predictor.model.name_of(task) if task is not None or len(predictor.tasks) == 1 else None


def _run_of(predictor: Predictor, task: str | None) -> Run:
    """How a predictor answers rows."""
    if task is None:
        return lambda rows: predictor.encode([str(row.values["text"]) for row in rows])
    return lambda rows: list(predictor.predict_rows(iter(rows), task=task))


def _onnx_runs(model: str, predictor: Predictor, task: str | None, scratch: Path) -> dict[str, Run]:
    from spanlab.inference.onnx_export import export_onnx

    runs = {}
    for name, int8 in (("onnx fp32", False), ("onnx int8", True)):
        out = scratch / name.replace(" ", "-")
        export_onnx(locate_model(model), out, int8=int8)
        runs[name] = _run_of(load(out), task)
    return runs


def _transformers_runs(model: str, predictor: Predictor, task: str | None, scratch: Path) -> dict[str, Run]:
    from spanlab.inference.torch_predictor import in_torch
    from spanlab.inference.transformers_loop import transformers_loop

    loaded = in_torch(predictor).model
    required = ("text",) if task is None else loaded.tasks[task].shape.required
    answer = transformers_loop(loaded.encoder, loaded.tokenizer, scratch / "transformers")
    return {"transformers": lambda rows: answer([_texts_of(row, required) for row in rows])}


def _texts_of(row: Row, required: Sequence[str]) -> tuple[str, ...]:
    """The texts of an input that go into the encoder."""
    texts = tuple(value for name in required if isinstance(value := row.values.get(name), str))
    return texts[:2] or next(((value,) for value in row.values.values() if isinstance(value, str)), ("",))


def _threads(predictor: Predictor) -> int:
    if "torch" in predictor.made_by:
        import torch

        return torch.get_num_threads()
    from spanlab.inference.onnx_predictor import encoder_threads

    return encoder_threads()
