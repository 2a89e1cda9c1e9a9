"""`spanlab.pipeline(task, model=…)`: the calls and outputs of transformers' pipelines, for scripts written for them.

Among them are question answering and summarisation, which transformers no longer has, and coreference, which it never
had. What goes in and what comes out has their keys, nesting and order; what is computed is `Predictor.predict`, so
texts may be of any length, and batches follow from lengths. Where the numbers differ, each class says so.

A text or a mapping gives its output, a list gives a list, any other iterable an iterator.
"""

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from typing_extensions import override

from spanlab.errors import InputError, did_you_mean
from spanlab.inference.load import load
from spanlab.inference.masked_text import read_masked_text
from spanlab.inference.predictor import Predictor
from spanlab.training.config import Device

if TYPE_CHECKING:
    from spanlab.inference.fill import Filler
    from spanlab.inference.fill_result import Candidate
    from spanlab.tasks.ner.data import Entity
    from spanlab.tasks.qa.data import QaResult
    from spanlab.text.tokens import Tokens

Output = dict[str, Any]
Aggregation = Literal["none", "simple", "first", "average", "max"]
_AT_ONCE = 256
"""How many inputs of an iterable are computed together."""
_OWN = {
    "batch_size": "batches follow from the lengths of texts: leave it out",
    "truncation": "long texts are computed in windows: leave it out",
    "padding": "leave it out",
}
"""Options of transformers that have no meaning here, and what to do about them."""


class Pipeline:
    """What all have in common: single inputs, lists and iterables; options, once for all calls or for one."""

    kinds: ClassVar[tuple[str, ...]]
    """The tasks that can be its model's."""

    def __init__(self, predictor: Predictor, name: str, options: Mapping[str, Any]) -> None:
        """`name` is of the model's task; `options` are those of every call."""
        self.model, self.name = predictor, name
        self._options = self._checked(options)

    def __call__(self, inputs: Any, **options: Any) -> Any:  # noqa: ANN401 (the shapes of transformers' outputs)
        """The outputs of one input, of a list, or of an iterable."""
        chosen = {**self._options, **self._checked(options)}
        if isinstance(inputs, str | Mapping):
            return self.outputs([inputs], **chosen)[0]
        if isinstance(inputs, list | tuple):
            return self.outputs(inputs, **chosen)
        return self._stream(inputs, chosen)

    def outputs(self, items: Sequence[Any]) -> list[Any]:
        """The output of each input; the keyword arguments of a pipeline's own method are its options."""
        raise NotImplementedError

    def _predict(self, items: Iterable[Any]) -> list[Any]:
        return self.model.predict(items, task=self.name)

    def _stream(self, inputs: Iterable[Any], options: Mapping[str, Any]) -> Iterator[Any]:
        iterator = iter(inputs)
        while items := list(islice(iterator, _AT_ONCE)):
            yield from self.outputs(items, **options)

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        parameters = inspect.signature(self.outputs).parameters.values()
        known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        for name in options:
            if name not in known:
                fix = _OWN.get(name, f"the options are {', '.join(known) or 'none'}")
                raise InputError(f"no option '{name}'{did_you_mean(name, known)}", fix=fix)
        return dict(options)


class QuestionAnsweringPipeline(Pipeline):
    """`{"score", "start", "end", "answer"}`; the score is the probability among the model's best answers.

    An answer is not cut at a number of tokens here: the model's own `max_answer` holds.
    """

    kinds = ("qa",)

    @override
    def __call__(self, inputs: Any = None, *, question: Any = None, context: Any = None, **options: Any) -> Any:
        """By `question=` and `context=`, by a mapping with both, or by a list of such mappings."""
        if inputs is not None:
            # As it was in transformers: a list of one question gives its answer, not a list.
            alone = isinstance(inputs, list | tuple) and len(inputs) == 1
            return super().__call__(inputs[0] if alone else inputs, **options)
        if isinstance(question, str):
            return super().__call__({"question": question, "context": context}, **options)
        contexts = [context] * len(question) if isinstance(context, str) else context
        pairs = zip(question, contexts, strict=True)
        return super().__call__([{"question": asked, "context": text} for asked, text in pairs], **options)

    @override
    def outputs(self, items: Sequence[Any], *, top_k: int = 1, handle_impossible_answer: bool = False) -> list[Any]:
        """Several answers to a question are a list; "" is an answer only with `handle_impossible_answer`."""
        return [self._answers(result, top_k, allow_none=handle_impossible_answer) for result in self._predict(items)]

    def _answers(self, result: "QaResult", top_k: int, *, allow_none: bool) -> Output | list[Output]:
        found = [
            {"score": answer.score, "start": answer.start or 0, "end": answer.end or 0, "answer": answer.answer}
            for answer in result.nbest
            if answer.answer or allow_none
        ]
        if allow_none and result.no_answer:  # decided by a threshold that was tuned, not by the scores alone
            found.sort(key=lambda answer: bool(answer["answer"]))
        found = found[:top_k] or [{"score": result.score, "start": 0, "end": 0, "answer": ""}]
        return found[0] if top_k == 1 else found


class SummarizationPipeline(Pipeline):
    """`[{"summary_text"}]`: whole sentences of the text, or a text that a generating model wrote."""

    kinds = ("summarisation", "generation")

    @override
    def outputs(
        self, items: Sequence[Any], *, max_length: int | None = None, min_length: int = 0, do_sample: bool = False
    ) -> list[Any]:
        """`max_length` counts words, and is for models that choose sentences."""
        generates = self.model.model.tasks[self.name].name == "generation"
        if do_sample or (generates and max_length is not None):
            option = "do_sample" if do_sample else "max_length"
            raise InputError(f"'{option}' is not for this model", fix="leave it out")
        if min_length:
            warnings.warn("min_length is not used: a summary of sentences has no least length", stacklevel=3)
        if generates:
            return [{"summary_text": result.text} for result in self._predict(items)]
        limit = {} if max_length is None else {"limit": max_length, "limit_by": "words"}
        results = self._predict({"text": item, **limit} for item in items)
        return [{"summary_text": result.summary} for result in results]

    @override
    def __call__(self, inputs: Any, **options: Any) -> Any:
        """A list, also for a single text."""
        return super().__call__([inputs] if isinstance(inputs, str) else inputs, **options)


class TokenClassificationPipeline(Pipeline):
    """`{"entity", "score", "index", "word", "start", "end"}` for each token, or `entity_group` for each entity.

    Tokens and entities are those of the model's decoding, whose tags are always consistent, so that all strategies but
    "none" agree; a score is that of the whole entity. `word` of an entity is what the text has there.
    """

    kinds = ("ner",)

    @override
    def outputs(self, items: Sequence[Any], *, aggregation_strategy: Aggregation = "none") -> list[Any]:
        """With "none" tokens of the outermost entities; with any other strategy all entities."""
        if aggregation_strategy not in get_args(Aggregation):
            fix = f"use one of {', '.join(get_args(Aggregation))}"
            raise InputError(f"aggregation_strategy is {aggregation_strategy!r}", fix=fix)
        results = self._predict(items)
        if aggregation_strategy != "none":
            return [[_group(entity) for entity in result.spans] for result in results]
        encoded = self.model.model.tokenizer.encode_batch([result.source for result in results])
        return [list(self._tokens(result.spans, tokens)) for result, tokens in zip(results, encoded, strict=True)]

    def _tokens(self, entities: Sequence["Entity"], tokens: "Tokens") -> Iterator[Output]:
        model, done = self.model.model, 0
        offset = model.windower(self.name).single(tokens)[0].first_start
        for entity in sorted(entities, key=lambda entity: (entity.start, -entity.end)):
            if entity.start < done:
                continue
            done = entity.end
            inside = ((tokens.starts < entity.end) & (tokens.ends > entity.start)).nonzero()[0].tolist()
            for index in inside:
                yield {
                    "entity": f"{'B' if index == inside[0] else 'I'}-{entity.label}",
                    "score": entity.score,
                    "index": index + offset,
                    "word": model.tokenizer.vocabulary[int(tokens.ids[index])],
                    "start": int(tokens.starts[index]),
                    "end": int(tokens.ends[index]),
                }


def _group(entity: "Entity") -> Output:
    about = {"entity_group": entity.label, "score": entity.score, "word": entity.text}
    return {**about, "start": entity.start, "end": entity.end}


class TextClassificationPipeline(Pipeline):
    """`[{"label", "score"}]`; of two texts, `{"text": …, "text_pair": …}`."""

    kinds = ("classification", "similarity")

    @override
    def __call__(self, inputs: Any, **options: Any) -> Any:
        """A single text gives a list of one output, unless this call has a `top_k`."""
        output = super().__call__(inputs, **options)
        return [output] if isinstance(inputs, str) and "top_k" not in options else output

    @override
    def outputs(self, items: Sequence[Any], *, top_k: int | Literal["legacy"] | None = "legacy") -> list[Any]:
        """The best label of each text; with `top_k` a list of so many, None being all."""
        return [self._labels(result.scores, top_k) for result in self._predict(map(self._input, items))]

    def _input(self, item: Any) -> Any:  # noqa: ANN401 (a text or a mapping)
        return (item["text"], item["text_pair"]) if isinstance(item, Mapping) and "text_pair" in item else item

    def _labels(self, scores: Mapping[str, float], top_k: int | Literal["legacy"] | None) -> Output | list[Output]:
        ranked = sorted(({"label": label, "score": score} for label, score in scores.items()), key=_minus_score)
        if top_k == "legacy":
            return ranked[0] if ranked else {"label": None, "score": None}
        return ranked[:top_k]


def _minus_score(output: Output) -> float:
    return -float(output["score"])


class CoreferencePipeline(Pipeline):
    """`{"clusters": [[{"start", "end", "text"}]], "resolved"}`: who is who, and the text with its pronouns replaced."""

    kinds = ("coref",)

    @override
    def outputs(self, items: Sequence[Any]) -> list[Any]:
        """No options."""
        return [
            {
                "clusters": [
                    [{"start": start, "end": end, "text": result.source[start:end]} for start, end in cluster]
                    for cluster in result.clusters
                ],
                "resolved": result.resolved(),
            }
            for result in self._predict(items)
        ]


class FeatureExtractionPipeline(Pipeline):
    """The hidden states of a text's tokens, special ones included: a list (1, T, D); for one vector, `encode`."""

    kinds = ()

    @override
    def outputs(self, items: Sequence[Any], *, return_tensors: bool = False) -> list[Any]:
        """Lists of numbers; with `return_tensors` tensors."""
        hidden = [self._hidden(text) for text in items]
        return hidden if return_tensors else [hidden_1TD.tolist() for hidden_1TD in hidden]

    def _hidden(self, text: str) -> Any:  # noqa: ANN401 (torch.Tensor)
        import torch

        from spanlab.inference.torch_predictor import TorchPredictor

        if not isinstance(self.model, TorchPredictor):
            raise InputError("an exported model gives no hidden states", fix="give the model that it was exported from")
        windower = self.model.embedding_windower()
        windows = windower.single(windower.tokenize([text])[0])
        if len(windows) > 1:
            cause = f"the text has more than {windower.length} tokens, special ones included"
            raise InputError(cause, fix="shorten it, or use spanlab.load(…).encode, which takes texts of any length")
        sequence, process = windows[0].sequence, self.model.process
        ids_1T, types_1T = (
            None if values is None else torch.as_tensor(values.astype("int64"), device=process.device)[None]
            for values in (sequence.ids, sequence.segments)
        )
        with torch.inference_mode(), process.autocast():
            return self.model.model.encoder(ids_1T, token_type_ids=types_1T).hidden.float().cpu()


class FillMaskPipeline(Pipeline):
    """`[{"score", "token", "token_str", "sequence"}]`; of several masks a list for each, by the MLM head.

    Special tokens are never proposed. For fillings of several masks together, and by the SBO head, `spanlab.fill`.
    """

    kinds = ()

    def __init__(self, filler: "Filler", options: Mapping[str, Any]) -> None:
        self.filler, self.tokenizer, self._options = filler, filler.tokenizer, self._checked(options)
        self._ids = {token: index for index, token in enumerate(self.tokenizer.vocabulary)}

    @override
    def outputs(self, items: Sequence[Any], *, top_k: int = 5, targets: str | Sequence[str] | None = None) -> list[Any]:
        """The `top_k` best candidates, or those among `targets`, which are tokens."""
        return [self._fill(text, top_k, targets) for text in items]

    def _fill(self, text: str, top_k: int, targets: str | Sequence[str] | None) -> list[Any]:
        wanted = [targets] if isinstance(targets, str) else targets
        unknown = [target for target in wanted or () if target not in self._ids]
        if unknown:
            raise InputError(f"'{unknown[0]}' is no token of the vocabulary", fix="give targets that are single tokens")
        masks = self.filler.candidates(text, top=top_k if wanted is None else len(self._ids))
        ids = read_masked_text(text, self.tokenizer).ids
        positions = [index for index, token in enumerate(ids) if token == self.tokenizer.mask_id]
        filled = []
        for position, mask in zip(positions, masks, strict=True):
            kept = [candidate for candidate in mask.mlm if wanted is None or candidate.token in wanted][:top_k]
            filled.append([self._output(ids, position, candidate, alone=len(masks) == 1) for candidate in kept])
        return filled[0] if len(filled) == 1 else filled

    def _output(self, ids: Sequence[int], position: int, candidate: "Candidate", *, alone: bool) -> Output:
        token = self._ids[candidate.token]
        sequence = [*ids[:position], token, *ids[position + 1 :]]
        return {
            "score": candidate.probability,
            "token": token,
            "token_str": self.tokenizer.decode([token]),
            "sequence": self.tokenizer.decode(sequence, skip_special_tokens=alone),
        }


_PIPELINES: Mapping[str, type[Pipeline]] = {
    "question-answering": QuestionAnsweringPipeline,
    "summarization": SummarizationPipeline,
    "token-classification": TokenClassificationPipeline,
    "text-classification": TextClassificationPipeline,
    "coreference-resolution": CoreferencePipeline,
    "feature-extraction": FeatureExtractionPipeline,
}
_FILL_MASK = "fill-mask"
_ALIASES = {"ner": "token-classification", "sentiment-analysis": "text-classification"}
_DEFAULTS = {"fill-mask": "spanbert-mini-en", "feature-extraction": "minilm"}
"""The model in the box for a task; of all others it is `reader`."""


def pipeline(
    task: str,
    model: str | Path | Predictor | None = None,
    *,
    name: str | None = None,
    device: int | str | None = None,
    revision: str | None = None,
    **options: Any,  # noqa: ANN401 (those of the task's calls)
) -> Pipeline:
    """A pipeline in transformers' form.

    Args:
        task: question-answering, summarization, token-classification (or ner), fill-mask, feature-extraction,
            text-classification (or sentiment-analysis) or coreference-resolution.
        model: a model folder, a run folder, a name in `spanlab models`, a Hugging Face id or a loaded model; None: one
            in the box, whose text-classification is sentiment.
        name: which of the model's tasks, if several are of this kind.
        device: as transformers has it: -1 for the CPU, 0 for a GPU; or a name. None: the best there is.
        revision: branch, tag or commit of a Hugging Face repository.
        options: options of every call, such as `aggregation_strategy="simple"`.
    """
    kind = _ALIASES.get(task, task)
    known = (*_PIPELINES, _FILL_MASK, *_ALIASES)
    if task not in known:
        raise InputError(f"unknown task '{task}'{did_you_mean(task, known)}", fix=f"use one of {', '.join(known)}")
    given = _DEFAULTS.get(kind, "reader") if model is None else model
    if kind == _FILL_MASK:
        from spanlab.inference.fill import Filler

        if isinstance(given, Predictor):
            raise InputError("masks are filled by a model's MLM head, which it does not load", fix="give its folder")
        return FillMaskPipeline(Filler(given, device=_device(device), revision=revision), options)
    predictor = given if isinstance(given, Predictor) else load(given, device=_device(device), revision=revision)
    chosen = _PIPELINES[kind]
    means_sentiment = task == "sentiment-analysis" or (kind == "text-classification" and model is None)
    if means_sentiment and name is None and "sentiment" in predictor.tasks:
        name = "sentiment"  # as in transformers, whose default for this task is a model of SST-2
    return chosen(predictor, _find_name(predictor, chosen.kinds, task, name), options)


def _find_name(predictor: Predictor, kinds: Sequence[str], task: str, name: str | None) -> str:
    """The model's task of one of these kinds; an encoder's hidden states need none."""
    if not kinds:
        return ""
    names = [known for known, found in predictor.model.tasks.items() if found.name in kinds and _is_labelled(found)]
    if name is not None and name in names:
        return name
    if name is None and len(names) == 1:
        return names[0]
    folder = predictor.model.folder
    if not names:
        raise InputError(f"no task of the model is for {task}", path=folder, fix=f"fine-tune it for {kinds[0]}")
    cause = f"{', '.join(names)} are for {task}" if name is None else f"'{name}' is not for {task}"
    raise InputError(cause, path=folder, fix=f"choose one, such as name={names[0]!r}")


def _is_labelled(task: Any) -> bool:  # noqa: ANN401 (a task)
    """Whether a task gives labels, if it could give numbers instead: similarities do either."""
    return task.name != "similarity" or bool(task.fitted.labels)


def _device(device: int | str | None) -> Device:
    if isinstance(device, int):
        return "cpu" if device < 0 else "cuda"
    name = "auto" if device is None else str(device).partition(":")[0]
    if name not in get_args(Device):
        raise InputError(f"device is {device!r}", fix=f"use one of {', '.join(get_args(Device))}")
    return name  # type: ignore[return-value]
