"""A loaded model whose layers ONNX Runtime computes: what `spanlab export` wrote, without torch.

Sequences are sorted by length and run in batches with little padding; the head of each sample is run by itself, on its
own hidden states. Sessions are made when first used, since a graph takes a moment to load and prepare.

ONNX Runtime's arena keeps the largest block of every shape it has seen, and texts have all shapes: it is off, and
memory is returned after every batch.

Shapes: B sequences, T padded length, D width.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.errors import InputError, MissingExtraError
from spanlab.inference.onnx_folder import ExportedModel, ExportedTask, read_exported
from spanlab.inference.predictor import BATCH_TOKENS, EMBEDDING, Predictor, Progress
from spanlab.machine import available_cores
from spanlab.tasks.batching import batches_by_tokens, sequence_key, sequences_of, shared_batches
from spanlab.tasks.fitted import FittedTasks, read_descriptions, read_task, task_folder
from spanlab.tasks.host_head import Array, EncodedSample
from spanlab.tasks.sample import Sample, TokenSequence
from spanlab.text import Tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_RUN_TOKENS = 4096
"""The maximum number of tokens, padding included, of one run of the encoder: attention's memory grows with its rows."""
_PADDED = 1.15
"""The longest sequence of a run is at most so many times the shortest, or a few tokens longer."""
_FEW = 4
_HEAD_THREADS = 1
"""The graphs of heads are small."""

States = tuple[NDArray[np.float32], NDArray[np.float32] | None]
"""(T, D) the hidden states of a sequence, and (D,) what the pooler gives."""


@dataclass(frozen=True, kw_only=True)
class ExportedTasks(FittedTasks):
    """The tasks of an exported model."""

    exported: ExportedModel

    @property
    @override
    def shape(self) -> ExportedModel:
        return self.exported


def load_exported(folder: Path) -> "OnnxPredictor":
    """The model of an exported folder."""
    _import_onnxruntime()
    exported, described = read_exported(folder)
    path = folder / "spanlab.json"
    tasks = {name: read_task(entry, path) for name, entry in read_descriptions(described, path).items()}
    if tasks.keys() != exported.tasks.keys():
        raise InputError("the tasks and their graphs do not go together", path=path, fix="export the model again")
    for name, task in tasks.items():
        task.load_files(task_folder(folder, name))
    model = ExportedTasks(
        tokenizer=Tokenizer.load(folder), tasks=tasks, system=described.get("system"), folder=folder, exported=exported
    )
    return OnnxPredictor(model, folder)


class OnnxPredictor(Predictor):
    """An exported model in ONNX Runtime, on the CPU."""

    model: ExportedTasks

    def __init__(self, model: ExportedTasks, folder: Path) -> None:
        self.model = model
        self._graphs = _Graphs(folder)
        embedding = ExportedTask(encoder=model.exported.encoder)
        self._files = {**model.exported.tasks, EMBEDDING: embedding}
        self._heads = {name: task.host_head for name, task in model.tasks.items()}

    @override
    def compute(
        self,
        samples: Mapping[str, Sequence[Sample]],
        *,
        batch_tokens: int = BATCH_TOKENS,
        on_share: Progress = lambda share: None,
    ) -> dict[str, list[Any]]:
        total = sum(sample.tokens for part in samples.values() for sample in part)
        outputs: dict[str, list[Any]] = {name: [None] * len(part) for name, part in samples.items()}
        for encoder in dict.fromkeys(self._files[name].encoder for name in samples):
            sharing = {name: part for name, part in samples.items() if self._files[name].encoder == encoder}
            for batch in _batches(sharing, batch_tokens):
                chosen = {name: [samples[name][index] for index in part] for name, part in batch.items()}
                states = self._encode(encoder, [sample for part in chosen.values() for sample in part])
                for name, part in batch.items():
                    for index, sample in zip(part, chosen[name], strict=True):
                        outputs[name][index] = self._output(name, _encoded(sample, states))
                    on_share(sum(sample.tokens for sample in chosen[name]) / total)
        return outputs

    @override
    def generates(self, task: str) -> bool:
        return False

    @property
    @override
    def precision(self) -> str:
        return "int8" if self.model.exported.int8 else "fp32"

    @property
    @override
    def made_by(self) -> dict[str, str]:
        version = _import_onnxruntime().__version__
        return {"device": "cpu", "precision": self.precision, "onnxruntime": version}

    def _output(self, task: str, encoded: EncodedSample) -> Any:  # noqa: ANN401 (the task's own)
        """The output of a sample's head."""
        if task == EMBEDDING:
            return encoded.hidden_TD.sum(axis=0)
        files = self._files[task].graphs
        return self._heads[task](lambda graph, inputs: self._graphs.run(files[graph], inputs), encoded)

    def _encode(self, encoder: str, samples: Sequence[Sample]) -> dict[tuple[bytes, bytes], States]:
        """The states of the distinct sequences of samples."""
        distinct = {sequence_key(sequence): sequence for sequence in sequences_of(samples)}
        states: dict[tuple[bytes, bytes], States] = {}
        for keys in _runs(distinct):
            inputs = _padded([distinct[key] for key in keys])
            hidden_BTD, *pooled = self._graphs.run(encoder, inputs)
            for row, key in enumerate(keys):
                # A copy, since a view would keep the states of the padding.
                hidden_TD = hidden_BTD[row, : len(distinct[key])].copy()
                states[key] = hidden_TD, pooled[0][row] if pooled else None
        return states


def _batches(samples: Mapping[str, Sequence[Sample]], batch_tokens: int) -> Iterator[dict[str, list[int]]]:
    """Indices of samples by task; of several tasks, all those of an example together."""
    if len(samples) > 1:
        yield from shared_batches(samples, batch_tokens)
        return
    ((name, part),) = samples.items()
    yield from ({name: indices} for indices in batches_by_tokens(part, batch_tokens))


def _runs(sequences: Mapping[tuple[bytes, bytes], TokenSequence]) -> Iterator[list[tuple[bytes, bytes]]]:
    """The keys of sequences, sorted by length, in runs of similar lengths."""
    run: list[tuple[bytes, bytes]] = []
    shortest = 0
    for key in sorted(sequences, key=lambda key: len(sequences[key])):
        length = len(sequences[key])
        if run and (length * (len(run) + 1) > _RUN_TOKENS or length > max(shortest * _PADDED, shortest + _FEW)):
            yield run
            run = []
        if not run:
            shortest = length
        run.append(key)
    if run:
        yield run


def _padded(sequences: Sequence[TokenSequence]) -> dict[str, Array]:
    """The inputs of an encoder."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    ids_BT = np.zeros((len(sequences), lengths.max()), np.int64)
    inputs = {"input_ids": ids_BT, "lengths": lengths}
    if sequences[0].segments is not None:
        inputs["token_type_ids"] = np.zeros_like(ids_BT)
    for row, sequence in enumerate(sequences):
        ids_BT[row, : len(sequence)] = sequence.ids
        if sequence.segments is not None:
            inputs["token_type_ids"][row, : len(sequence)] = sequence.segments
    return inputs


def _encoded(sample: Sample, states: Mapping[tuple[bytes, bytes], States]) -> EncodedSample:
    """A sample with the states of its sequences, end to end."""
    parts = [states[sequence_key(sequence)] for sequence in sample.sequences]
    hidden_TD = parts[0][0] if len(parts) == 1 else np.concatenate([hidden for hidden, _ in parts])
    pooled = [pooled_D for _, pooled_D in parts if pooled_D is not None]
    return EncodedSample(sample=sample, hidden_TD=hidden_TD, pooled_BD=np.stack(pooled) if pooled else None)


class _Graphs:
    """The graphs of a folder; each is loaded when it is first run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions: dict[str, InferenceSession] = {}
        self._loading = threading.Lock()

    def run(self, file: str, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs of a graph; inputs that it does not have are left out."""
        session = self._session(file)
        names = [node.name for node in session.get_inputs()]
        try:
            return session.run(None, {name: inputs[name] for name in names})  # type: ignore[no-any-return]
        except KeyError as error:
            raise self._unfit(file, f"this graph takes {error}, which its task does not have") from None
        except MemoryError:
            raise
        except Exception as error:
            raise self._unfit(file, f"ONNX Runtime cannot run this graph: {_first_line(error)}") from None

    def _session(self, file: str) -> "InferenceSession":
        with self._loading:
            if file not in self._sessions:
                self._sessions[file] = self._load(file)
            return self._sessions[file]

    def _load(self, file: str) -> "InferenceSession":
        onnxruntime = _import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = encoder_threads() if file.startswith("encoder") else _HEAD_THREADS
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        # Threads that spin while they wait take the time of whatever else runs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            return onnxruntime.InferenceSession(str(self._folder / file), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise self._unfit(file, f"ONNX Runtime cannot load this graph: {_first_line(error)}") from None

    def _unfit(self, file: str, cause: str) -> InputError:
        return InputError(cause, path=self._folder / file, fix="export the model again")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def encoder_threads() -> int:
    """The threads of an encoder: OMP_NUM_THREADS, or all cores."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(asked), available_cores()) if asked.isdigit() and int(asked) else available_cores()


def _import_onnxruntime() -> Any:  # noqa: ANN401 (a module without types)
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnx", "an exported model") from None
    return onnxruntime
