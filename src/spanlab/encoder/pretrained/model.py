"""What a model folder holds, in memory: an encoder, its heads, and what was left over."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from spanlab.encoder.model import Encoder
from spanlab.errors import MissingHeadError

FORMAT_VERSION = 1
"""The version of the folder layout that this SpanLab writes and the newest it reads."""

HEAD_PURPOSES = {
    "mlm": "fill masks",
    "clm": "generate text",
    "plm": "predict tokens in any order",
    "nsp": "judge the next sentence",
    "sop": "judge the order of sentences",
    "rtd": "detect replaced tokens",
    "sbo": "fill spans from their boundaries",
    "bilm": "predict words in both directions",
    "sequence": "label sequences",
    "token": "label tokens",
    "answer": "find answers",
}


@dataclass(frozen=True)
class LoadReport:
    """What a folder held that was not used."""

    unexpected: tuple[str, ...] = ()
    """Weights that belong to no part of the encoder or its heads, by their names in the file."""


@dataclass(frozen=True)
class Model:
    """An encoder with the heads its folder held."""

    encoder: Encoder
    heads: dict[str, nn.Module] = field(default_factory=dict)
    """By objective: mlm, clm, plm, bilm, nsp, sop, rtd, sbo; a fine-tuned folder's sequence, token or answer."""
    report: LoadReport = LoadReport()
    folder: Path | None = None
    tasks: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """By the name of a task: the weights of a head that transformers has no class for."""
    described: dict[str, Any] = field(default_factory=dict)
    """What `spanlab.json` says, such as the labels of a fine-tuned model; empty for a foreign folder."""

    def head(self, name: str) -> nn.Module:
        """The head of an objective, or an error that says what cannot be done without it."""
        if name in self.heads:
            return self.heads[name]
        where = f" in {self.folder}" if self.folder else ""
        has = ", ".join(self.heads) or "none"
        raise MissingHeadError(f"no {name} head{where} (it has {has}): the model cannot {HEAD_PURPOSES[name]}")
