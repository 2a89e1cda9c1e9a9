"""The peer of `benchmarks.finetune`: the same four tasks as a plain transformers loop, as its own examples write it.

Features come from the fast tokenizer, batches are padded to their longest, the model is transformers' own class with
its own loss. What is scored is put together by plain Python. Only the scorers are SpanLab's, so that both sides are
measured by one rule; nothing else of it is used for training or prediction.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from spanlab.machine import has_bf16_instructions
from spanlab.tasks.base import AnyTask

Feature = dict[str, Any]
MODEL_INPUTS = ("input_ids", "token_type_ids", "attention_mask")


def half_precision() -> AbstractContextManager[Any]:
    """bf16 autocast where the machine computes in it; elsewhere it would only be slower."""
    return torch.autocast("cpu", torch.bfloat16) if has_bf16_instructions() else nullcontext()


class Peer:
    """One task in transformers: features, model, loss and predictions."""

    model_class: Any

    def __init__(self, folder: Path, task: AnyTask) -> None:
        self.folder, self.task, self.length = folder, task, task.config.data.length
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def build(self) -> Any:  # noqa: ANN401 (a transformers model)
        """The pre-trained encoder with a new head."""
        return self.model_class.from_pretrained(self.folder, **self.head_options())

    def head_options(self) -> dict[str, Any]:
        """Further options of the model class."""
        return {}

    def features(self, examples: Sequence[Any]) -> list[Feature]:
        """Token ids, and whatever the loss and the predictions need, of each sequence."""
        raise NotImplementedError

    def targets(self, features: Sequence[Feature], width: int) -> dict[str, Tensor]:
        """The labels of a batch of sequences padded to `width`."""
        return {"labels": torch.tensor([feature["label"] for feature in features])}

    def loss(self, model: Any, batch: dict[str, Tensor]) -> Tensor:  # noqa: ANN401
        """As the model computes it."""
        return model(**batch).loss  # type: ignore[no-any-return]

    def answers(self, features: Sequence[Feature], logits: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
        """What the scorer compares, one for each example."""
        raise NotImplementedError

    def score(self, examples: Sequence[Any], answers: Sequence[Any]) -> float:
        """The task's main figure."""
        raise NotImplementedError

    def copy_head(self, model: Any, layer: nn.Module) -> None:  # noqa: ANN401
        """Give the model the weights of our head."""
        model.classifier.load_state_dict(layer.classifier.state_dict())  # type: ignore[union-attr]

    def collate(self, features: Sequence[Feature]) -> dict[str, Tensor]:
        """A batch padded to its longest sequence."""
        plain = [{name: feature[name] for name in MODEL_INPUTS} for feature in features]
        return dict(self.tokenizer.pad(plain, return_tensors="pt"))

    def labelled(self, features: Sequence[Feature]) -> dict[str, Tensor]:
        """A batch with its targets."""
        batch = self.collate(features)
        return {**batch, **self.targets(features, batch["input_ids"].shape[1])}

    def predict(self, model: Any, examples: Sequence[Any], *, batch_size: int = 32) -> list[Any]:  # noqa: ANN401
        """From texts to answers, batch after batch in the order given."""
        features = self.features(examples)
        logits: list[Any] = []
        model.eval()
        with torch.inference_mode(), half_precision():
            for first in range(0, len(features), batch_size):
                output = model(**self.collate(features[first : first + batch_size]))
                logits += self.rows_of(output)
        return self.answers(features, logits, examples)

    def rows_of(self, output: Any) -> list[Any]:  # noqa: ANN401
        """The logits of each sequence of a batch."""
        return list(output.logits.float().numpy())


class SentencePeer(Peer):
    """SST-2 and STS-B: a label or a score for one text or two."""

    model_class = transformers.AutoModelForSequenceClassification

    def head_options(self) -> dict[str, Any]:
        """One output is a regression."""
        return {"num_labels": len(self.task.fitted.labels) or 1}

    def features(self, examples: Sequence[Any]) -> list[Feature]:
        """One sequence per example."""
        pairs = [(one.text,) if hasattr(one, "text") else (one.text_a, one.text_b) for one in examples]
        encoded = self.tokenizer(*map(list, zip(*pairs, strict=True)), truncation=True, max_length=self.length)
        rows = [{name: encoded[name][i] for name in MODEL_INPUTS} for i in range(len(pairs))]
        labels = self.task.fitted.labels
        return [
            {**row, "label": labels.index(one.labels[0]) if labels else float(one.score)}
            for row, one in zip(rows, examples, strict=True)
        ]

    def answers(self, features: Sequence[Feature], logits: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
        """The best label, or the score."""
        labels = self.task.fitted.labels
        return [labels[int(row.argmax())] if labels else float(row[0]) for row in logits]

    def score(self, examples: Sequence[Any], answers: Sequence[Any]) -> float:
        """Accuracy; or 100 times Spearman's correlation."""
        from spanlab.metrics.classification import score_classes
        from spanlab.metrics.similarity import score_similarity

        if self.task.fitted.labels:
            return score_classes([one.labels[0] for one in examples], answers)["accuracy"]
        return 100 * score_similarity([one.score for one in examples], answers)["spearman"]


class TaggingPeer(Peer):
    """CoNLL: a tag at the first subword of each word, greedy decoding."""

    model_class = transformers.AutoModelForTokenClassification

    def head_options(self) -> dict[str, Any]:
        """The tags."""
        return {"num_labels": len(self.task.fitted.labels)}

    def features(self, examples: Sequence[Any]) -> list[Feature]:
        """One sequence per example, with the tag of each word's first subword."""
        texts = [one.text for one in examples]
        encoded = self.tokenizer(texts, truncation=True, max_length=self.length, return_offsets_mapping=True)
        features = []
        for i, one in enumerate(examples):
            words, offsets = encoded.word_ids(i), encoded["offset_mapping"][i]
            first = [word is not None and word != before for before, word in zip([None, *words], words, strict=False)]
            row = {name: encoded[name][i] for name in MODEL_INPUTS}
            features.append({**row, "label": self._tags(one, offsets, first), "offsets": offsets, "words": words})
        return features

    def _tags(self, example: Any, offsets: Sequence[tuple[int, int]], first: Sequence[bool]) -> list[int]:  # noqa: ANN401
        names = self.task.fitted.labels
        tags = [0 if begins else -100 for begins in first]
        for span in example.spans:
            inside = [i for i, (a, b) in enumerate(offsets) if first[i] and span.start <= a and b <= span.end]
            for number, i in enumerate(inside):
                tags[i] = names.index(f"{'I' if number else 'B'}-{span.label}")
        return tags

    def targets(self, features: Sequence[Feature], width: int) -> dict[str, Tensor]:
        """Padded with the label that the loss ignores."""
        rows = [feature["label"] + [-100] * (width - len(feature["label"])) for feature in features]
        return {"labels": torch.tensor(rows)}

    def answers(self, features: Sequence[Feature], logits: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
        """Runs of tags as character spans."""
        names = self.task.fitted.labels
        results = []
        for feature, row in zip(features, logits, strict=True):
            spans: list[tuple[int, int, str]] = []
            best, words, offsets = row.argmax(-1), feature["words"], feature["offsets"]
            open_label = None
            for i, tag in enumerate(feature["label"]):
                if tag != -100:
                    place, _, label = names[int(best[i])].partition("-")
                    end = max(b for (_, b), word in zip(offsets, words, strict=True) if word == words[i])
                    if place == "I" and label == open_label:
                        spans[-1] = (spans[-1][0], end, label)
                    elif place != "O":
                        spans.append((offsets[i][0], end, label))
                    open_label = label or None
            results.append(spans)
        return results

    def score(self, examples: Sequence[Any], answers: Sequence[Any]) -> float:
        """Micro F1 of entities."""
        from spanlab.metrics.entities import score_entities

        gold = [[(span.start, span.end, span.label) for span in one.spans] for one in examples]
        return score_entities(gold, answers)["f1"]


class AnswerPeer(Peer):
    """SQuAD: windows with the usual tokenizer options, the usual double loop over the best starts and ends."""

    model_class = transformers.AutoModelForQuestionAnswering

    def features(self, examples: Sequence[Any]) -> list[Feature]:
        """One sequence per window, with the positions of the first correct answer, or 0."""
        return [feature for number, one in enumerate(examples) for feature in self._windows(number, one)]

    def _windows(self, number: int, example: Any) -> list[Feature]:  # noqa: ANN401
        question = self.tokenizer(example.question, add_special_tokens=False)["input_ids"]
        room = self.length - 3 - len(question)
        encoded = self.tokenizer(
            example.question,
            example.contexts[0],
            truncation="only_second",
            max_length=self.length,
            # transformers' stride is what two windows share.
            stride=room - self.task.config.data.stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        features = []
        for i, offsets in enumerate(encoded["offset_mapping"]):
            context = [place for place, part in enumerate(encoded.sequence_ids(i)) if part == 1]
            row = {name: encoded[name][i] for name in MODEL_INPUTS}
            target = self._target(example, offsets, context)
            features.append({**row, "example": number, "offsets": offsets, "context": context, "target": target})
        return features

    def _target(self, example: Any, offsets: Any, context: Sequence[int]) -> tuple[int, int]:  # noqa: ANN401
        if not example.answers:
            return 0, 0
        start, end = example.answers[0].start, example.answers[0].end
        if offsets[context[0]][0] > start or offsets[context[-1]][1] < end:
            return 0, 0
        first = next(place for place in context if offsets[place][1] > start)
        last = next(place for place in reversed(context) if offsets[place][0] < end)
        return first, last

    def targets(self, features: Sequence[Feature], width: int) -> dict[str, Tensor]:
        """Start and end positions."""
        first, last = zip(*(feature["target"] for feature in features), strict=True)
        return {"start_positions": torch.tensor(first), "end_positions": torch.tensor(last)}

    def rows_of(self, output: Any) -> list[Any]:  # noqa: ANN401
        """Start and end logits of each window."""
        pair = (output.start_logits.float().numpy(), output.end_logits.float().numpy())
        return list(zip(*pair, strict=True))

    def answers(self, features: Sequence[Feature], logits: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
        """The text of the best pair of all windows of a question."""
        best: list[tuple[float, str]] = [(float("-inf"), "")] * len(examples)
        for feature, (start, end) in zip(features, logits, strict=True):
            context, offsets = set(feature["context"]), feature["offsets"]
            starts = start.argsort()[-1:-21:-1].tolist()
            ends = end.argsort()[-1:-21:-1].tolist()
            for a in starts:
                for b in ends:
                    if a in context and b in context and a <= b < a + 30:
                        score, number = float(start[a] + end[b]), feature["example"]
                        if score > best[number][0]:
                            best[number] = (score, examples[number].contexts[0][offsets[a][0] : offsets[b][1]])
        return [text for _, text in best]

    def score(self, examples: Sequence[Any], answers: Sequence[Any]) -> float:
        """F1."""
        from spanlab.metrics.squad import score_answers

        return score_answers([[answer.text for answer in one.answers] for one in examples], answers)["f1"]

    def copy_head(self, model: Any, layer: nn.Module) -> None:  # noqa: ANN401
        """Give the model the weights of our head."""
        model.qa_outputs.load_state_dict(layer.ends.state_dict())  # type: ignore[union-attr]

    def masked_loss(self, model: Any, batch: dict[str, Tensor]) -> Tensor:  # noqa: ANN401
        """The loss over the tokens of each window. The model's own includes padding as answer positions."""
        inputs = {name: batch[name] for name in MODEL_INPUTS}
        output, real = model(**inputs), batch["attention_mask"] != 0
        losses = [
            nn.functional.cross_entropy(logits.masked_fill(~real, -torch.inf), batch[name])
            for logits, name in ((output.start_logits, "start_positions"), (output.end_logits, "end_positions"))
        ]
        return (losses[0] + losses[1]) / 2
