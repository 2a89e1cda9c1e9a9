"""`spanlab export --to onnx`: a model folder in, a folder that needs no torch out, with how much it differs.

Encoder and heads become graphs; tokenizer, tasks and settings go along as they are. What is exported is then compared
with torch on the almanac's passages: the outputs, the share of equal answers, and the seconds of both.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from spanlab.atomic_io import staged_folder, write_json
from spanlab.encoder.padded import PaddedEncoder
from spanlab.encoder.transformer import TransformerEncoder
from spanlab.errors import InputError
from spanlab.inference.onnx_folder import (
    DESCRIPTION,
    OPSET,
    REQUIREMENTS,
    REQUIREMENTS_FILE,
    WEIGHTS,
    ExportedGraph,
    ExportedModel,
    ExportedTask,
    describe_exported,
)
from spanlab.inference.onnx_graphs import WeightsFile, add_adapters, import_onnx, names_of, quantised, trace
from spanlab.machine import int8_instructions
from spanlab.tasks.adapters import TaskAdapters, merged
from spanlab.tasks.fitted import describe_task, task_folder
from spanlab.tasks.head_graphs import GraphModule, example_inputs, graphs_of
from spanlab.tasks.model import TaskModel, load_task_model
from spanlab.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

_ENCODER = "encoder.onnx"


def export_onnx(model: str | Path, out: Path, *, int8: bool = False) -> ExportedModel:
    """Write a model's graphs, tokenizer and settings into a folder that `spanlab.load` reads without torch.

    Args:
        model: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
        out: the folder to write.
        int8: store the encoder's matrices as int8, a scale for each output channel; heads stay in fp32.
    """
    import_onnx()
    loaded = load_task_model(model)
    _check(loaded)
    with staged_folder(out) as new, torch.no_grad():
        exported = _write(loaded, new, int8=int8)
        loaded.tokenizer.save(new)
        for name, task in loaded.tasks.items():
            task.save_files(task_folder(new, name))
        (new / REQUIREMENTS_FILE).write_text("\n".join([*REQUIREMENTS, ""]), encoding="utf-8")
        write_json(new / DESCRIPTION, _describe(loaded, exported))
    return exported


def _check(model: TaskModel) -> None:
    """Raise for what cannot be exported."""
    if not isinstance(model.encoder, TransformerEncoder):
        cause = f"a {model.encoder.config.architecture} encoder cannot be exported"
        raise InputError(cause, path=model.folder, fix="export one of the BERT family, or use it in torch")
    for name, head in model.heads.items():
        if head.generates:
            cause = f"'{name}' generates text token by token, which cannot be exported"
            raise InputError(cause, path=model.folder, fix="export a model without this task, or use it in torch")


def _describe(model: TaskModel, exported: ExportedModel) -> dict[str, Any]:
    """The whole of `spanlab.json`."""
    tasks = {name: describe_task(task) for name, task in model.tasks.items()}
    about = {"spanlab": __version__, "system": model.system, "task": "multitask", "tasks": tasks}
    return about | describe_exported(exported)


def _write(model: TaskModel, folder: Path, *, int8: bool) -> ExportedModel:
    """Every graph and the weights of all."""
    encoder = merged(model.encoder)
    assert isinstance(encoder, TransformerEncoder)
    graphs: dict[str, ExportedGraph] = {}
    tasks: dict[str, ExportedTask] = {}
    with WeightsFile(path=folder / WEIGHTS) as weights:

        def keep(graph: "ModelProto", file: str) -> None:
            weights.write_graph(graph, folder / file)
            graphs[file] = names_of(graph)

        plain = _trace_encoder(encoder)
        keep(_finished(plain, int8=int8), _ENCODER)
        for name, head in model.heads.items():
            adapters = model.adapters.get(name)
            file = _ENCODER
            if adapters is not None and adapters.changes_hidden_states:
                file = f"encoder.{name}.onnx"
                base = plain if adapters.embedding_E is None else _trace_encoder(encoder, adapters.embedding_E)
                keep(_finished(_adapted(base, adapters, int8=int8), int8=int8), file)
            files = {}
            for graph_name, graph in graphs_of(head).items():
                inputs = example_inputs(graph, width=encoder.config.width, has_pooler=encoder.pooler is not None)
                module = GraphModule(head, graph, tuple(inputs), None if adapters is None else adapters.pooler)
                files[graph_name] = f"{name}.{graph_name}.onnx"
                keep(trace(module, inputs), files[graph_name])
            tasks[name] = ExportedTask(encoder=file, graphs=files)
    shape = {name: getattr(encoder.config, name) for name in ("width", "max_positions", "segments")}
    return ExportedModel(opset=OPSET, int8=int8, encoder=_ENCODER, tasks=tasks, graphs=graphs, **shape)


def _trace_encoder(encoder: TransformerEncoder, shift_E: Tensor | None = None) -> "ModelProto":
    """The graph of an encoder; `shift_E` is added to every embedded token."""
    inputs = {"input_ids": torch.tensor([[1, 2, 3], [2, 3, 0]]), "lengths": torch.tensor([3, 2])}
    if encoder.config.segments > 1:
        inputs["token_type_ids"] = torch.tensor([[0, 0, 1], [0, 1, 1]])
    outputs = ("hidden", "pooled") if encoder.pooler is not None else ("hidden",)
    return trace(PaddedEncoder(encoder, shift_E), inputs, outputs)


def _adapted(plain: "ModelProto", adapters: TaskAdapters, *, int8: bool) -> "ModelProto":
    return add_adapters(plain, adapters, prefix="encoder.", merged=int8)


def _finished(graph: "ModelProto", *, int8: bool) -> "ModelProto":
    """The graph as it is written."""
    if not int8:
        return graph
    with TemporaryDirectory() as folder:
        return quantised(graph, Path(folder), reduced=int8_instructions() is None)
