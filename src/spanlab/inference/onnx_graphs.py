"""Layers of torch to ONNX graphs, and graphs to files that share one file of weights.

A module is traced; its weights keep the names they have in it. Matrices are stored as they are multiplied, so that they
can be quantised, and so that the LoRA update of a task is a product of two small constants, added when a session is
made: a task with adapters costs the folder no second encoder.

The tracing exporter is used, though torch has a newer one: for these graphs it is ten times faster, needs no further
package, and has the dynamic shapes of heads.
"""

import hashlib
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
import torch
from torch import Tensor, nn

from spanlab.errors import MissingExtraError
from spanlab.inference.onnx_folder import OPSET, ExportedGraph
from spanlab.tasks.adapters import TaskAdapters

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto

_ALIGNMENT = 64
_SMALL = 1024
"""Tensors of fewer bytes stay in their graph."""
_TRANSPOSED = ".T"
_IN_FP32 = "feed_forward.down.weight"
"""The matrices that int8 leaves in fp32, since what they multiply has outliers.

ONNX Runtime quantises activations with one scale for all. On MiniLM, 1 minus the cosine of a text's vectors with those
of fp32 was 0.0068 with all matrices in int8 and 0.0034 without these, for 0.47 and 0.58 of the CPU time of fp32.
"""


def trace(module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str] = ()) -> "ModelProto":
    """The graph of a module that takes `inputs` in their order; every axis may have another size but a float's last.

    Without names, the outputs are `output_0`, `output_1`, …
    """
    onnx = import_onnx()
    axes = {name: {axis: f"{name}_{axis}" for axis in _dynamic_axes(tensor)} for name, tensor in inputs.items()}
    buffer = BytesIO()
    with warnings.catch_warnings(), torch.enable_grad():  # without gradients, layers compute in place
        names = outputs or [f"output_{index}" for index in range(len(module.eval()(*inputs.values())))]
        warnings.simplefilter("ignore")  # of constants, and that this exporter is the older one
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            buffer,  # type: ignore[arg-type]  # the tracing exporter writes to files in memory, too
            input_names=list(inputs),
            output_names=list(names),
            dynamic_axes=axes,
            opset_version=OPSET,
            do_constant_folding=False,
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    used = {name for node in model.graph.node for name in node.input}
    taken = [value for value in model.graph.input if value.name in used]
    del model.graph.input[:]
    model.graph.input.extend(taken)
    _store_transposed(model.graph)
    return model


def _dynamic_axes(tensor: Tensor) -> range:
    return range(tensor.dim() - 1 if tensor.is_floating_point() and tensor.dim() > 1 else tensor.dim())


def names_of(model: "ModelProto") -> ExportedGraph:
    """The names of inputs and outputs."""
    return ExportedGraph(
        inputs=tuple(value.name for value in model.graph.input),
        outputs=tuple(value.name for value in model.graph.output),
    )


def _store_transposed(graph: "GraphProto") -> None:
    """Replace the nodes that transpose a matrix of weights by the transposed matrix."""
    onnx = import_onnx()
    weights = {tensor.name: tensor for tensor in graph.initializer}
    kept, renamed = [], {}
    for node in graph.node:
        is_matrix = node.op_type == "Transpose" and node.input[0] in weights and len(weights[node.input[0]].dims) == 2
        if not is_matrix:
            kept.append(node)
            continue
        name = node.input[0] + _TRANSPOSED
        renamed[node.output[0]] = name
        if name not in weights:
            matrix = np.ascontiguousarray(onnx.numpy_helper.to_array(weights[node.input[0]]).T)
            weights[name] = onnx.numpy_helper.from_array(matrix, name)
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    used = {name for node in kept for name in node.input}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(tensor for name, tensor in weights.items() if name in used)


def add_adapters(model: "ModelProto", adapters: TaskAdapters, *, prefix: str, merged: bool) -> "ModelProto":
    """A copy of an encoder's graph with the LoRA update of a task.

    `merged` adds it here, as quantising needs, to the matrices that are quantised; else ONNX Runtime does when it folds
    constants, and the encoder's own matrices are shared.
    """
    onnx = import_onnx()
    adapted = onnx.ModelProto()
    adapted.CopyFrom(model)
    weights = {tensor.name: tensor for tensor in adapted.graph.initializer}
    nodes, renamed = [], {}
    for weight_name, update in adapters.updates():
        name = prefix + weight_name + _TRANSPOSED
        down, up = (part.detach().float().numpy().T.copy() for part in (update.down, update.up * update.scale))
        if merged and _IN_FP32 not in name:
            matrix = onnx.numpy_helper.to_array(weights[name]) + down @ up
            weights[name].CopyFrom(onnx.numpy_helper.from_array(matrix.astype(np.float32), name))
            continue
        parts = {f"{name}.down": down, f"{name}.up": up}
        adapted.graph.initializer.extend(onnx.numpy_helper.from_array(part, key) for key, part in parts.items())
        nodes.append(onnx.helper.make_node("MatMul", list(parts), [f"{name}.update"], name=f"{name}.update"))
        nodes.append(onnx.helper.make_node("Add", [name, f"{name}.update"], [f"{name}.adapted"]))
        renamed[name] = f"{name}.adapted"
    for node in adapted.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    nodes += list(adapted.graph.node)
    del adapted.graph.node[:]
    adapted.graph.node.extend(nodes)
    return adapted


def quantised(model: "ModelProto", folder: Path, *, reduced: bool) -> "ModelProto":
    """The graph with its matrices as int8, a scale for each output channel, and inputs quantised as they come.

    `reduced`: 7 bits, as the products of CPUs without VNNI overflow 16 bits. Files are made in `folder`, as the
    quantiser takes no others where weights exceed 2 GB.
    """
    onnx = import_onnx()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source, target = folder / "whole.onnx", folder / "quantised.onnx"
    whole = onnx.ModelProto()
    whole.CopyFrom(model)  # saving moves the weights out of it
    onnx.save(whole, str(source), save_as_external_data=True, location="whole.bin")
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # advice to optimise the graph first, which ONNX Runtime does when it loads it
    quantize_dynamic(
        str(source),
        str(target),
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        reduce_range=reduced,
        weight_type=QuantType.QInt8,
        use_external_data_format=True,
        nodes_to_exclude=[node.name for node in model.graph.node if any(_IN_FP32 in name for name in node.input)],
        extra_options={"MatMulConstBOnly": True},
    )
    logging.disable(disabled)
    return onnx.load(str(target))


@dataclass(kw_only=True)
class WeightsFile:
    """The weights of several graphs in one file, equal ones once."""

    path: Path

    def __enter__(self) -> Self:
        self._file: BinaryIO = self.path.open("wb")
        self._places: dict[bytes, int] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write_graph(self, model: "ModelProto", path: Path) -> None:
        """Write a graph, and its weights that are not here yet."""
        written = import_onnx().ModelProto()
        written.CopyFrom(model)
        for tensor in written.graph.initializer:
            self._move(tensor)
        path.write_bytes(written.SerializeToString())

    def _move(self, tensor: "TensorProto") -> None:
        """Have a tensor point to its place in the file."""
        onnx = import_onnx()
        content = onnx.numpy_helper.to_array(tensor).tobytes()
        if len(content) < _SMALL:
            return
        digest = hashlib.sha256(content).digest()
        if digest not in self._places:
            self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
            self._places[digest] = self._file.tell()
            self._file.write(content)
        place = {"location": self.path.name, "offset": self._places[digest], "length": len(content)}
        shape, kind, name = tuple(tensor.dims), tensor.data_type, tensor.name
        tensor.Clear()
        tensor.name, tensor.data_type, tensor.data_location = name, kind, onnx.TensorProto.EXTERNAL
        tensor.dims.extend(shape)
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))


def import_onnx() -> Any:  # noqa: ANN401 (a module without types)
    """The module `onnx`."""
    try:
        import onnx
        import onnxruntime  # noqa: F401 (the parity of what is exported is measured)
    except ImportError:
        raise MissingExtraError("onnx", "spanlab export --to onnx") from None
    return onnx
