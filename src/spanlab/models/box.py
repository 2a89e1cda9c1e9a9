"""The list of models in the box, and the folder of each.

The numbers of a model are those of its card, `NAME/README.md`; its size is that of its files.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spanlab.errors import InputError, LoadWarning
from spanlab.models.minilm import HUB_ID, find_minilm, minilm_folder, minilm_from_hub
from spanlab.models.packages import packaged_folder

_WEIGHTS, _ADDED_WEIGHTS = "model.safetensors", "heads.safetensors"
_NO_NAME = re.compile(r"^$|[/\\\\]|^\.")
"""What a path has, and no name of a model."""
_OF_A_MODEL = ("config.json", "tokenizer.json", "model")
"""What a folder that is meant as a model has one of: a model folder, a tokenizer's, a run."""


@dataclass(frozen=True, kw_only=True)
class BundledModel:
    """A model that a name stands for, with what its user wants to know before loading it."""

    name: str
    task: str
    """What it does as it is."""
    base: str
    """Architecture and shape."""
    parameters: int
    scores: Mapping[str, float] = field(default_factory=dict)
    """By what is measured."""
    data_licence: str
    purpose: str
    """One line: what it is for."""
    extra: str | None = None
    """The extra whose package holds it; None if it comes with SpanLab itself."""
    encoder_of: str | None = None
    """The model in the box whose encoder it uses; None if it has its own."""
    made_by: str
    """How it is trained again."""
    licence: str = "apache-2.0"
    """Of the weights, as the hub abbreviates it."""
    hub_id: str | None = None
    """The Hugging Face id of its encoder; None if it is not on the hub."""

    @property
    def folder(self) -> Path | None:
        """Where its files are; None if they are not installed."""
        folder = Path(__file__).parent / self.name if self.extra is None else minilm_folder()
        weights = _WEIGHTS if self.encoder_of is None else _ADDED_WEIGHTS
        return folder if folder is not None and (folder / weights).is_file() else None

    @property
    def megabytes(self) -> float | None:
        """The size of its files in 1e6 bytes; None if they are not installed."""
        if self.folder is None:
            return None
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / 1e6

    def to_dict(self) -> dict[str, Any]:
        """The model for JSON."""
        return {
            "name": self.name,
            "task": self.task,
            "base": self.base,
            "parameters": self.parameters,
            "megabytes": None if self.megabytes is None else round(self.megabytes, 1),
            "scores": dict(self.scores),
            "data_licence": self.data_licence,
            "purpose": self.purpose,
            "extra": self.extra,
            "encoder_of": self.encoder_of,
            "folder": None if self.folder is None else str(self.folder),
        }


_MODELS = (
    BundledModel(
        name="reader",
        task="answers questions, finds entities, coreference and relations, picks the main sentence, tells sentiment "
        "and topic, embeds texts",
        base="heads and adapters over minilm, which it needs; English",
        parameters=9_431_263,
        scores={
            "SQuAD 1.1 dev F1": 68.0,
            "almanac entities F1": 85.8,
            "LitBank coreference F1": 59.6,
            "SST-2 dev accuracy": 88.1,
        },
        data_licence="SQuAD (CC BY-SA), LitBank and WNUT-17 (CC BY), SciTLDR (Apache-2.0), SST-2 (GLUE's terms), "
        "CoNLL04 (not stated), the almanac",
        purpose="spans out of English text at once: spanlab predict reader --task qa|entities|coref|relations|…",
        encoder_of="minilm",
        hub_id=HUB_ID,
        made_by="make reader DATA=folder, in a copy of SpanLab's sources",
    ),
    BundledModel(
        name="spanbert-mini-en",
        task="fills masks (MLM and SBO heads), embeds texts",
        base="SpanBERT on ModernBERT's architecture: 4 layers of 256, 12,288 cased WordPieces, English",
        parameters=6_703_008,
        scores={"held-out MLM loss": 4.968, "CoNLL-2003 F1 from 2,000 sentences": 76.6},
        data_licence="novels in the public domain, WikiText-2 (CC BY-SA)",
        purpose="a start for fine-tuning (--model) and for pre-training on your own text (--init) without a download",
        made_by="spanlab pretrain spanbert --data novels:3 --data wiki:1 --out run size=mini "
        "data.phases=[[0.92,128],[0.08,512]] training.steps=16000, its weights then made int8 (its card has the data)",
    ),
    BundledModel(
        name="minilm",
        task="embeds texts",
        base="all-MiniLM-L6-v2, a BERT: 6 layers of 384, 30,522 lower-case WordPieces, English",
        parameters=22_713_216,
        scores={"STS-B dev Spearman": 86.7},
        data_licence="a billion public sentence pairs of many licences; the weights are Apache-2.0",
        purpose="vectors of sentences, and a stronger start for fine-tuning, in four times the size",
        extra="minilm",
        hub_id=HUB_ID,
        made_by="sentence-transformers, which published it",
    ),
)
_BY_NAME = {model.name: model for model in _MODELS}
NAMES = tuple(_BY_NAME)
"""The names that a model argument may be."""
WHAT_A_MODEL_IS = f"a model folder, a run folder, {', '.join(NAMES)} or a Hugging Face id"
ELSEWHERE: Mapping[str, str] = {
    "SpanBERT/spanbert-base-cased": "SpanBERT as published, 108 M parameters; the encoder, without heads",
    "SpanBERT/spanbert-large-cased": "the same in large, 334 M; the encoder, without heads",
    "google-bert/bert-base-cased": "BERT, 108 M; MLM and NSP heads",
    "FacebookAI/roberta-base": "RoBERTa, 125 M; MLM head",
    "answerdotai/ModernBERT-base": "ModernBERT, 149 M, up to 8,192 tokens; MLM head",
    "google/electra-small-discriminator": "ELECTRA, 14 M; RTD head",
    "albert/albert-base-v2": "ALBERT, 12 M; MLM head",
    "xlnet/xlnet-base-cased": "XLNet, 117 M; PLM head",
    "openai-community/gpt2": "GPT-2, 124 M; causal LM head",
    "google-bert/bert-base-multilingual-cased": "BERT of 104 languages, 178 M; MLM and NSP heads",
    "distilbert/distilbert-base-cased": "an encoder that transformers computes: pip install 'spanlab[hf]'",
}
"""Hugging Face ids, and what each is and needs."""


def list_models() -> tuple[BundledModel, ...]:
    """The models in the box; `spanlab.load`, `--model` and `--init` take their names."""
    return _MODELS


def bundled_model(name: str) -> BundledModel | None:
    """The model in the box of a name; None for any other name."""
    return _BY_NAME.get(name)


def folder_of(name: str) -> Path | None:
    """The folder that a name in the box or of a packaged model stands for; None for any other name.

    A folder of that name here comes first, with a warning, unless it is something else than a model; names in the box
    come before those of packages. Raises with the command that installs the model if its files are not there.
    """
    packaged = None if name in _BY_NAME or _NO_NAME.search(name) else packaged_folder(name)
    if name not in _BY_NAME and packaged is None:
        return None
    if any((Path(name) / inner).exists() for inner in _OF_A_MODEL):
        remark = f"'{name}' is a folder here, and is used instead of the model of that name in `spanlab models`"
        warnings.warn(LoadWarning(f"{remark}; ./{name} says so without this note"), stacklevel=3)
        return Path(name)
    return packaged or bundled_folder(name)


def bundled_folder(name: str) -> Path:
    """The folder of a model in the box, whatever is in the current directory; raises if its files are not there."""
    model = _BY_NAME[name]
    if model.extra is not None:
        folder, problem = find_minilm() if minilm_folder() is not None else minilm_from_hub()
        if folder is None:
            raise InputError(problem)
        return folder
    if model.folder is None:
        cause = f"the weights of '{name}' are missing from this installation"
        raise InputError(cause, fix="use pip install --force-reinstall --no-deps spanlab")
    return model.folder
