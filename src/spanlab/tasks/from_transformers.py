"""Models that transformers fine-tuned: their class and their config's names of outputs tell which task they do.

What enters is a loaded folder without a `spanlab.json`; what leaves are its tasks, and the model with a token head's
outputs in the order of tags here: O, then B and I of each label. A head that knows no B, as one trained on IO tags or
on bare labels, is given one that scores a hair less than the I: an entity begins where the label before is another.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from spanlab.encoder import Model, SequenceHead
from spanlab.encoder.heads import TokenHead
from spanlab.encoder.pretrained.config_json import read_config_json
from spanlab.errors import InputError
from spanlab.tasks.base import AnyTask, FittedState
from spanlab.tasks.classification import Classification, ClassificationConfig
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.decode import tag_names
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.qa.config import QaConfig
from spanlab.tasks.qa.task import QuestionAnswering
from spanlab.tasks.similarity import Similarity, SimilarityConfig

_A_HAIR = 1e-3
_NEVER = -1e4


def foreign_tasks(model: Model, folder: Path) -> tuple[dict[str, AnyTask], Model]:
    """The tasks by name, none for an encoder alone, and the model as they take it."""
    sequence, token = model.heads.get("sequence"), model.heads.get("token")
    if isinstance(sequence, SequenceHead):
        return _sequence_task(sequence, folder), model
    if isinstance(token, TokenHead):
        names = _output_names(folder, token.classifier.out_features)
        entities = _entity_labels(names, folder)
        fitted = FittedState(labels=tag_names(entities), entity_labels=entities)
        reordered = _in_our_order(token, names, fitted.labels, model)
        tasks: dict[str, AnyTask] = {"ner": NamedEntities(NerConfig(units="word", nested=False), fitted)}
        return tasks, replace(model, heads={**model.heads, "token": reordered})
    if "answer" in model.heads:
        return {"qa": QuestionAnswering(QaConfig(), FittedState())}, model
    return {}, model


def _sequence_task(head: SequenceHead, folder: Path) -> dict[str, AnyTask]:
    if head.classifier.out_features == 1:
        return {"similarity": Similarity(SimilarityConfig(), FittedState())}
    several = read_config_json(folder).get("problem_type") == "multi_label_classification"
    labels = _output_names(folder, head.classifier.out_features)
    fitted = FittedState(labels=labels, thresholds={"labels": 0.5} if several else {})
    return {"classification": Classification(ClassificationConfig(multi_label=several), fitted)}


def _output_names(folder: Path, count: int) -> tuple[str, ...]:
    names = {int(number): str(name) for number, name in read_config_json(folder).get("id2label", {}).items()}
    return tuple(names.get(number, f"LABEL_{number}") for number in range(count))


def _entity_labels(names: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The labels that tags are about; tags of another kind than BIO and IO are refused."""
    parts = [_parted(name) for name in names if name != "O"]
    begun, inside = ({label for prefix, label in parts if prefix == kind} for kind in "BI")
    complete = not begun or inside <= begun
    if "O" not in names or not complete or any(prefix not in "BI" for prefix, _ in parts):
        cause = f"its token head's labels are {', '.join(names[:12])}, which are neither BIO nor IO tags"
        raise InputError(cause, path=folder / "config.json", fix="fine-tune it here by spanlab finetune ner")
    return tuple(sorted(begun | inside))


def _parted(name: str) -> tuple[str, str]:
    """`B-PER` as B and PER; a bare label is inside."""
    prefix, dash, label = name.partition("-")
    return (prefix, label) if dash and len(prefix) == 1 else ("I", name)


def _in_our_order(head: TokenHead, names: Sequence[str], tags: Sequence[str], model: Model) -> TokenHead:
    """The same outputs under our tags; one that the head does not have is made from its I, or never given."""
    places = {"O" if name == "O" else "-".join(_parted(name)): place for place, name in enumerate(names)}
    reordered = TokenHead(model.encoder.config, len(tags))
    old, new = head.classifier, reordered.classifier
    with torch.no_grad():
        for row, tag in enumerate(tags):
            place = places.get(tag, places.get(tag.replace("B-", "I-", 1)))
            if place is None:
                new.weight[row], new.bias[row] = 0.0, _NEVER
            else:
                new.weight[row] = old.weight[place]
                new.bias[row] = old.bias[place] - (0.0 if tag in places else _A_HAIR)
    return reordered
