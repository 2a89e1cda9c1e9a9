"""`POST /v1/attention` and `POST /v1/attribution`: where a head attends, and which tokens made an answer.

Both compute with a model in the lane of long work, and count as one input each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from spanlab.errors import SpanlabError, clip_repr
from spanlab.inference.attribution import attribute
from spanlab.inference.torch_predictor import in_torch
from spanlab.inference.writers import to_json
from spanlab.report.attention import attention_of
from spanlab.serving.bodies import check_keys, parse_object
from spanlab.serving.refusals import RefusalError, invalid
from spanlab.serving.schemas import operation
from spanlab.serving.served_model import ServedModel, optional_fields
from spanlab.serving.state import Serving

_PASSAGE = "Ada Lovelace wrote to Charles Babbage."
_TEXT = {"type": "string"}
_LONGEST = 512
"""Tokens whose attention is sent: the weights of a head are their square."""
_ATTENTION = operation(
    "The attention of one head on a text, token to token",
    {
        "type": "object",
        "properties": {"text": _TEXT, "layer": {"type": "integer"}, "head": {"type": "integer"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    {"type": "object"},
    {"text": _PASSAGE, "layer": 1, "head": 1},
    takes_model=True,
)
_EXPLAINED = ("classification", "similarity", "qa")
"""The tasks whose example in the description has an answer whatever the model is."""


def explain_router(serving: Serving) -> APIRouter:
    """Both routes."""
    router = APIRouter()

    async def attention(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, _attention(serving, request.query_params.get("model"), body))

    async def attribution(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, _attribution(serving, request.query_params.get("model"), body))

    router.add_api_route("/v1/attention", attention, methods=["POST"], openapi_extra=_ATTENTION)
    router.add_api_route(
        "/v1/attribution", attribution, methods=["POST"], openapi_extra=_describe_attribution(serving.models)
    )
    return router


def _describe_attribution(models: Sequence[ServedModel]) -> dict[str, Any]:
    """What OpenAPI says, with an example of a task that is served."""
    tasks = [(name, task) for model in models for name, task in model.tasks.items() if task.name in _EXPLAINED]
    example = None
    if tasks:
        name, task = tasks[0]
        example = {"task": name, "input": dict.fromkeys(task.shape.required, _PASSAGE)}
    body = {
        "type": "object",
        "properties": {
            "task": _TEXT,
            "input": {"type": "object"},
            "answer": {"anyOf": [_TEXT, {"type": "integer"}]},
            "steps": {"type": "integer", "minimum": 1, "maximum": 1000},
        },
        "required": ["task", "input"],
        "additionalProperties": False,
    }
    summary = "The share of every token in an answer, by integrated gradients"
    return operation(summary, body, {"type": "object"}, example, takes_model=True)


async def _attention(serving: Serving, model_name: str | None, body: bytes) -> Response:
    serving.batcher.check_room()
    values = await serving.in_pool(parse_object, body, ("text", "layer", "head"), ("text",))
    text = _text(values, "text")
    layer, head = (_number(values, key, default=1) for key in ("layer", "head"))
    model = serving.model(model_name)

    def compute() -> str:
        loaded = in_torch(model.predictor).model
        report = attention_of(loaded.encoder, loaded.tokenizer, text, title=model.name, longest=_LONGEST)
        return to_json(report.to_dict(layer, head))

    return await _run(serving, compute, "text")


async def _attribution(serving: Serving, model_name: str | None, body: bytes) -> Response:
    serving.batcher.check_room()
    values = await serving.in_pool(parse_object, body, ("task", "input", "answer", "steps"), ("task", "input"))
    task = _text(values, "task")
    model = serving.model(model_name, task=task)
    given = _input(model, task, values["input"])
    answer, steps = values.get("answer"), values.get("steps")
    if answer is not None and (isinstance(answer, bool) or not isinstance(answer, str | int)):
        message = f"'answer' is {clip_repr(answer)}; it must be a label or an index"
        raise RefusalError(422, "invalid_input", message, where="answer")
    if steps is not None:
        steps = _number(values, "steps", default=1)

    def compute() -> str:
        found = attribute(model.predictor, given, task=model.own_name(task), answer=answer, steps=steps)
        return to_json({**found.to_dict(), "task": task})

    return await _run(serving, compute, "input")


async def _run(serving: Serving, compute: Any, where: str) -> Response:  # noqa: ANN401 (a function without arguments)
    try:
        content = await serving.run(compute)
    except SpanlabError as error:
        raise invalid(error, where) from None
    return Response(content, media_type="application/json")


def _input(model: ServedModel, task: str, value: object) -> Mapping[str, Any]:
    if task not in model.tasks:
        raise RefusalError(404, "unknown_task", f"'{model.name}' has no task '{task}'", where="task")
    if not isinstance(value, dict):
        message = f"'input' is {clip_repr(value)}; it must be an object with the fields of the task"
        raise RefusalError(422, "invalid_input", message, where="input")
    served = model.tasks[task]
    check_keys(value, (*served.shape.required, *optional_fields(served)), "input")
    return value


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values[key]
    if not isinstance(value, str):
        raise RefusalError(422, "invalid_input", f"'{key}' is {clip_repr(value)}; it must be a text", where=key)
    return value


def _number(values: Mapping[str, Any], key: str, *, default: int) -> int:
    value = values.get(key, default)
    if type(value) is not int:
        message = f"'{key}' is {clip_repr(value)}; it must be a whole number"
        raise RefusalError(422, "invalid_input", message, where=key)
    return value
