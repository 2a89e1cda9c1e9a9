"""Models fine-tuned with transformers: the task is derived from the head's class and `id2label`.

A loaded model without `spanlab.json` enters; its tasks leave, and the model with the outputs of a token head reordered
to SpanLab's tags: O, then B and I of each label. A head without B tags (trained on IO tags or bare labels) gets B
outputs that are copies of its I outputs minus a small margin, so that I wins and an entity begins where the label
changes.
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

_MARGIN = 1e-3
"""By how much the logit of an added B tag is below that of its I tag."""
_NEVER = -1e4
"""The logit of a tag that the head cannot predict."""


def derive_tasks(model: Model, folder: Path) -> tuple[dict[str, AnyTask], Model]:
    """The tasks by name, empty for an encoder without a head, and the model with its token head reordered."""
    sequence, token = model.heads.get("sequence"), model.heads.get("token")
    if isinstance(sequence, SequenceHead):
        return _sequence_task(sequence, folder), model
    if isinstance(token, TokenHead):
        names = _output_names(folder, token.classifier.out_features)
        entities = _entity_labels(names, folder)
        fitted = FittedState(labels=tag_names(entities), entity_labels=entities)
        reordered = _reorder_outputs(token, names, fitted.labels, model)
        tasks: dict[str, AnyTask] = {"ner": NamedEntities(NerConfig(units="word", nested=False), fitted)}
        return tasks, replace(model, heads={**model.heads, "token": reordered})
    if "answer" in model.heads:
        return {"qa": QuestionAnswering(QaConfig(), FittedState())}, model
    return {}, model


def _sequence_task(head: SequenceHead, folder: Path) -> dict[str, AnyTask]:
    if head.classifier.out_features == 1:
        return {"similarity": Similarity(SimilarityConfig(), FittedState())}
    multi_label = read_config_json(folder).get("problem_type") == "multi_label_classification"
    labels = _output_names(folder, head.classifier.out_features)
    fitted = FittedState(labels=labels, thresholds={"labels": 0.5} if multi_label else {})
    return {"classification": Classification(ClassificationConfig(multi_label=multi_label), fitted)}


def _output_names(folder: Path, count: int) -> tuple[str, ...]:
    """The names in `id2label`; like transformers, `LABEL_0` and so on without one."""
    names = {int(index): str(name) for index, name in read_config_json(folder).get("id2label", {}).items()}
    return tuple(names.get(index, f"LABEL_{index}") for index in range(count))


def _entity_labels(names: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The entity labels in BIO or IO tags; other tag schemes are an error."""
    tags = [_split_tag(name) for name in names if name != "O"]
    begun, inside = ({label for prefix, label in tags if prefix == letter} for letter in "BI")
    complete = not begun or inside <= begun
    if "O" not in names or not complete or any(prefix not in "BI" for prefix, _ in tags):
        cause = f"its token head's labels are {', '.join(names[:12])}, which are neither BIO nor IO tags"
        raise InputError(cause, path=folder / "config.json", fix="fine-tune it with spanlab finetune ner")
    return tuple(sorted(begun | inside))


def _split_tag(name: str) -> tuple[str, str]:
    """`B-PER` as B and PER; a bare label counts as I."""
    prefix, dash, label = name.partition("-")
    return (prefix, label) if dash and len(prefix) == 1 else ("I", name)


def _reorder_outputs(head: TokenHead, names: Sequence[str], tags: Sequence[str], model: Model) -> TokenHead:
    """A head with one output per tag; a tag that `head` lacks is derived from its I tag, or never predicted."""
    old_rows = {"O" if name == "O" else "-".join(_split_tag(name)): row for row, name in enumerate(names)}
    reordered = TokenHead(model.encoder.config, len(tags))
    old, new = head.classifier, reordered.classifier
    with torch.no_grad():
        for row, tag in enumerate(tags):
            old_row = old_rows.get(tag, old_rows.get(tag.replace("B-", "I-", 1)))
            if old_row is None:
                new.weight[row], new.bias[row] = 0.0, _NEVER
            else:
                new.weight[row] = old.weight[old_row]
                new.bias[row] = old.bias[old_row] - (0.0 if tag in old_rows else _MARGIN)
    return reordered
