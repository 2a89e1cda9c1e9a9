"""OpenAPI of the routes: what each takes and gives, with examples that work as they stand.

Bodies are read by `bodies`, which is stricter than JSON Schema; what is described here is what it accepts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from spanlab.serving.served_model import ServedModel
from spanlab.tasks.base import AnyTask

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_SPAN: Schema = {
    "type": "array",
    "prefixItems": [{"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 0}],
    "minItems": 2,
    "maxItems": 2,
}
_FIELDS: Mapping[str, Schema] = {
    "context": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "sentences": {"type": "array"},
    "words": {"type": "array", "items": _SPAN},
    "mentions": {"type": "array", "items": _SPAN},
    "speakers": {"type": "array", "items": {"type": "array", "minItems": 3, "maxItems": 3}},
    "entities": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}, "label": _TEXT},
            "required": ["start", "end", "label"],
        },
    },
    "limit": {"type": "number"},
    "limit_by": {"enum": ["sentences", "words", "ratio"]},
    "id": {"anyOf": [_TEXT, {"type": "integer"}]},
}
"""The fields that are not plain text."""
_PASSAGE = "Ada Lovelace wrote to Charles Babbage from London in 1843. She had found an error in his notes."
_EXAMPLES: Mapping[str, Schema] = {
    "classification": {"text": _PASSAGE},
    "similarity": {"text_a": "The harbour froze in January.", "text_b": "In January there was ice in the harbour."},
    "ner": {"text": _PASSAGE},
    "qa": {"question": "Who found an error?", "context": _PASSAGE},
    "summarisation": {"text": _PASSAGE},
    "generation": {"source": _PASSAGE},
    "coref": {"text": _PASSAGE},
    "relation": {"text": _PASSAGE},
}
_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": _TEXT, "message": _TEXT, "where": {"type": ["string", "null"]}},
            "required": ["code", "message", "where"],
        }
    },
    "required": ["error"],
}
_CAUSES: Mapping[str, str] = {
    "401": "The key is missing or wrong.",
    "404": "No such model or task.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "422": "The input cannot be used; `where` is its place.",
    "429": "The queue is full; `Retry-After` says when to try again.",
    "503": "The server is about to end.",
    "504": "Not computed in time.",
}


def describe_task(name: str, task: AnyTask) -> Schema:
    """`POST /v1/NAME`."""
    one = _input_schema(task)
    forms = [one, {"type": "array", "items": one}]
    if len(task.shape.required) == 1:
        forms = [one, _TEXT, {"type": "array", "items": {"anyOf": [one, _TEXT]}}]
    result: Schema = {
        "type": "object",
        "properties": {"id": _TEXT, "windows": {"type": "integer"}, "truncated": {"type": "boolean"}},
        "required": ["id"],
    }
    return operation(
        f"Task {name}: one input or a list of them",
        {"anyOf": forms},
        {"anyOf": [result, {"type": "array", "items": result}]},
        _EXAMPLES[task.name],
        takes_model=True,
    )


def _input_schema(task: AnyTask) -> Schema:
    from spanlab.serving.served_model import optional_fields

    required = [name for name in task.shape.required if name not in task.shape.instead]
    fields = (*task.shape.required, *optional_fields(task))
    return {
        "type": "object",
        "properties": {name: _FIELDS.get(name, _TEXT) for name in fields},
        "required": required,
        "additionalProperties": False,
    }


def describe_all(models: Sequence[ServedModel]) -> Schema:
    """`POST /v1/all`."""
    body = {
        "type": "object",
        "properties": {"text": _TEXT, "question": _TEXT, "id": _FIELDS["id"]},
        "required": ["text"],
        "additionalProperties": False,
    }
    example = {"text": _PASSAGE, "question": "Who found an error?"}
    answer = {"type": "object", "additionalProperties": {"type": "object"}}
    return operation("Every task of a model whose fields are given", body, answer, example, takes_model=True)


def describe_fill() -> Schema:
    """`POST /v1/fill`."""
    body = {
        "type": "object",
        "properties": {"text": _TEXT, "top": {"type": "integer", "minimum": 1, "maximum": 100}},
        "required": ["text"],
        "additionalProperties": False,
    }
    example = {"text": "The old [MASK] [MASK] went out to sea."}
    return operation("Fill masks by the MLM and the SBO head", body, {"type": "object"}, example, takes_model=True)


def operation(summary: str, body: Schema | None, answer: Schema, example: Any, *, takes_model: bool = False) -> Schema:  # noqa: ANN401
    """What OpenAPI says of a route."""
    responses = {
        status: {"description": cause, "content": {"application/json": {"schema": _ERROR}}}
        for status, cause in _CAUSES.items()
    }
    content = {"application/json": {"schema": answer}}
    described: Schema = {
        "summary": summary,
        "responses": {"200": {"description": "The result.", "content": content}, **responses},
    }
    if body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body, "example": example}},
        }
    if takes_model:
        about = "The name of a loaded model; by default the first that can answer."
        described["parameters"] = [{"name": "model", "in": "query", "description": about, "schema": _TEXT}]
    return described
