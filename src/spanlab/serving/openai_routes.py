"""`GET /v1/models` and `POST /v1/embeddings`, as the clients of OpenAI expect them."""

import base64
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from spanlab.errors import SpanlabError, clip_repr
from spanlab.serving.bodies import check_dimensions, json_response, parse_object, read_texts
from spanlab.serving.refusals import RefusalError, invalid
from spanlab.serving.schemas import operation
from spanlab.serving.state import Serving
from spanlab.version import __version__

_KEYS = ("input", "model", "encoding_format", "dimensions", "user")
_EMBEDDINGS = operation(
    "Unit vectors of texts",
    {
        "type": "object",
        "properties": {
            "input": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "model": {"type": "string"},
            "encoding_format": {"enum": ["float", "base64"]},
            "dimensions": {"type": "integer"},
            "user": {"type": "string"},
        },
        "required": ["input"],
        "additionalProperties": False,
    },
    {"type": "object"},
    {"input": ["The harbour froze in January.", "In January there was ice in the harbour."]},
)
_MODELS = operation("The loaded models and what each can be asked", None, {"type": "object"}, None)


def openai_router(serving: Serving) -> APIRouter:
    """Both routes, and one for a single model."""
    router = APIRouter()

    async def models() -> Response:
        return json_response({"object": "list", "data": [_describe(serving, model.name) for model in serving.models]})

    async def one_model(name: str) -> Response:
        return json_response(_describe(serving, name))

    async def embeddings(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, _embed(serving, body))

    router.add_api_route("/v1/models", models, methods=["GET"], openapi_extra=_MODELS)
    router.add_api_route("/v1/models/{name:path}", one_model, methods=["GET"], include_in_schema=False)
    router.add_api_route("/v1/embeddings", embeddings, methods=["POST"], openapi_extra=_EMBEDDINGS)
    return router


def _describe(serving: Serving, name: str) -> dict[str, Any]:
    model = serving.model(name)
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": f"spanlab {__version__}",
        "spanlab": model.describe(),
    }


async def _embed(serving: Serving, body: bytes) -> Response:
    serving.batcher.check_room()
    values = await serving.in_pool(parse_object, body, _KEYS, ("input",))
    name, encoding = values.get("model"), values.get("encoding_format")
    if name is not None and not isinstance(name, str):
        raise RefusalError(422, "invalid_input", f"'model' is {clip_repr(name)}; it must be a name", where="model")
    model = serving.model(name)
    if encoding not in (None, "float", "base64"):
        message = f"'encoding_format' is {clip_repr(encoding)}; it must be float or base64"
        raise RefusalError(422, "invalid_input", message, where="encoding_format")
    check_dimensions(values, model)
    texts, _ = read_texts(values["input"], "input")
    try:
        vectors, tokens = await serving.embed(model, texts)
    except SpanlabError as error:
        raise invalid(error, "input") from None
    return await serving.in_pool(_answer, vectors, tokens, encoding, model.name)


def _answer(vectors: NDArray[np.float32], tokens: int, encoding: str, model: str) -> Response:
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
            if encoding == "base64"
            else vector.tolist(),
        }
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": data, "model": model, "usage": usage})
