"""`/embed`, `/rerank`, `/tokenize` and `/info`, as the clients of text-embeddings-inference expect them.

Texts of any length are taken whole, so `truncate` changes nothing; vectors are always of unit length. `/rerank` uses
the score of a similarity task that the model has, else the cosine of the vectors of query and text.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from spanlab.errors import SpanlabError, clip_repr
from spanlab.serving.bodies import check_dimensions, json_response, parse_object, read_flag, read_texts
from spanlab.serving.refusals import RefusalError, invalid
from spanlab.serving.schemas import operation
from spanlab.serving.served_model import ServedModel
from spanlab.serving.state import TEXT_THREADS, Serving
from spanlab.strict_parsing import parse_json
from spanlab.tasks.formats.row import Row
from spanlab.tasks.windows import Windower
from spanlab.version import __version__

_TRUNCATION = ("truncate", "truncation_direction")
_EMBED_KEYS = ("inputs", "normalize", "dimensions", *_TRUNCATION)
_RERANK_KEYS = ("query", "texts", "raw_scores", "return_text", *_TRUNCATION)
_TOKENIZE_KEYS = ("inputs", "add_special_tokens")
_ENDLESS = 1 << 40
_TEXT = {"type": "string"}
_TEXTS = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_ARRAY = {"type": "array"}
_QUERY, _RANKED = "Where did ice form?", ["The harbour froze in January.", "The mill had stopped."]


def _body(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    truncation = {"truncate": {"type": "boolean"}, "truncation_direction": {"enum": ["left", "right", "Left", "Right"]}}
    known = properties if "add_special_tokens" in properties else {**properties, **truncation}
    return {"type": "object", "properties": known, "required": list(required), "additionalProperties": False}


_EMBED = operation(
    "Unit vectors of texts, as text-embeddings-inference gives them",
    _body({"inputs": _TEXTS, "normalize": {"enum": [True]}, "dimensions": {"type": "integer"}}, ["inputs"]),
    _ARRAY,
    {"inputs": _RANKED},
    takes_model=True,
)
_RERANK = operation(
    "Texts by how well they fit a query",
    _body(
        {
            "query": _TEXT,
            "texts": {"type": "array", "items": _TEXT},
            "raw_scores": {"type": "boolean"},
            "return_text": {"type": "boolean"},
        },
        ["query", "texts"],
    ),
    _ARRAY,
    {"query": _QUERY, "texts": _RANKED},
    takes_model=True,
)
_TOKENIZE = operation(
    "The tokens of texts with their offsets",
    _body({"inputs": _TEXTS, "add_special_tokens": {"type": "boolean"}}, ["inputs"]),
    _ARRAY,
    {"inputs": _RANKED},
    takes_model=True,
)
_INFO = operation("The model that answers by default, and the limits", None, {"type": "object"}, None, takes_model=True)


def tei_router(serving: Serving) -> APIRouter:
    """The four routes."""
    router = APIRouter()

    async def embed(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, _embed(serving, _model(serving, request), body))

    async def rerank(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, _rerank(serving, _model(serving, request), body))

    async def tokenize(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, serving.in_pool(_tokenize, _model(serving, request), body))

    async def info(request: Request) -> Response:
        return json_response(_describe(serving, _model(serving, request)))

    router.add_api_route("/embed", embed, methods=["POST"], openapi_extra=_EMBED)
    router.add_api_route("/rerank", rerank, methods=["POST"], openapi_extra=_RERANK)
    router.add_api_route("/tokenize", tokenize, methods=["POST"], openapi_extra=_TOKENIZE)
    router.add_api_route("/info", info, methods=["GET"], openapi_extra=_INFO)
    return router


def _model(serving: Serving, request: Request) -> ServedModel:
    return serving.model(request.query_params.get("model"))


def _describe(serving: Serving, model: ServedModel) -> dict[str, Any]:
    settings, predictor = serving.settings, model.predictor
    return {
        "model_id": model.name,
        "model_sha": None,
        "model_dtype": {"bf16": "bfloat16", "fp16": "float16"}.get(predictor.precision, "float32"),
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_concurrent_requests": settings.queue,
        "max_input_length": predictor.embedding_windower().length,
        "max_batch_tokens": settings.batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": settings.queue,
        "auto_truncate": False,
        "tokenization_workers": TEXT_THREADS,
        "version": __version__,
        "sha": None,
        "docker_label": None,
    }


async def _embed(serving: Serving, model: ServedModel, body: bytes) -> Response:
    serving.batcher.check_room()
    values = await serving.in_pool(parse_object, body, _EMBED_KEYS, ("inputs",))
    _check_truncation(values)
    if not read_flag(values, "normalize", default=True):
        raise RefusalError(422, "invalid_input", "vectors are always of unit length", where="normalize")
    check_dimensions(values, model)
    texts, _ = read_texts(values["inputs"], "inputs")
    try:
        vectors, _ = await serving.embed(model, texts)
    except SpanlabError as error:
        raise invalid(error, "inputs") from None
    return await serving.in_pool(lambda: json_response(vectors.tolist()))


async def _rerank(serving: Serving, model: ServedModel, body: bytes) -> Response:
    serving.batcher.check_room()
    values = await serving.in_pool(parse_object, body, _RERANK_KEYS, ("query", "texts"))
    _check_truncation(values)
    query, texts = values["query"], values["texts"]
    if not isinstance(query, str):
        raise RefusalError(422, "invalid_input", f"'query' is {clip_repr(query)}; it must be a text", where="query")
    if not isinstance(texts, list):
        raise RefusalError(422, "invalid_input", f"'texts' is {clip_repr(texts)}; it must be a list", where="texts")
    texts, _ = read_texts(texts, "texts")
    for where, text in [("query", query), *((f"texts[{index}]", text) for index, text in enumerate(texts))]:
        if not text.strip():
            raise RefusalError(422, "invalid_input", f"'{where}' is empty: it has no score", where=where)
    read_flag(values, "raw_scores", default=False)
    with_text = read_flag(values, "return_text", default=False)
    scores = await _scores(serving, model, query, texts)
    order = sorted(range(len(texts)), key=lambda index: -scores[index])
    ranked = [{"index": i, "score": scores[i], **({"text": texts[i]} if with_text else {})} for i in order]
    return json_response(ranked)


async def _scores(serving: Serving, model: ServedModel, query: str, texts: Sequence[str]) -> list[float]:
    """How well each text fits the query."""
    scored = (name for name, task in model.tasks.items() if task.name == "similarity" and not task.fitted.labels)
    task = next(scored, None)
    if task is None:
        try:
            vectors, _ = await serving.embed(model, [query, *texts])
        except SpanlabError as error:
            raise invalid(error, "texts") from None
        return list((vectors[1:] @ vectors[0]).astype(np.float64).tolist())
    rows = [Row(values={"text_a": query, "text_b": text}, path=f"texts[{index}]") for index, text in enumerate(texts)]
    answers = await serving.predict(model, task, rows, [str(index) for index in range(len(texts))])
    for answer in answers:
        if isinstance(answer, RefusalError):
            raise answer
    return [float(parse_json(answer)["score"]) for answer in answers if isinstance(answer, str)]


def _tokenize(model: ServedModel, body: bytes) -> Response:
    values = parse_object(body, _TOKENIZE_KEYS, ("inputs",))
    texts, _ = read_texts(values["inputs"], "inputs")
    special = read_flag(values, "add_special_tokens", default=True)
    windower = model.predictor.embedding_windower()
    whole = Windower(windower.tokenizer, length=_ENDLESS, segments=1)
    return json_response([_tokens_of(whole, text, special=special) for text in texts])


def _tokens_of(windower: Windower, text: str, *, special: bool) -> list[dict[str, Any]]:
    (tokens,) = windower.tokenize([text])
    offsets = list(zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True))
    ids, first = tokens.ids.tolist(), 0
    if special and (windower.reserved() or ids):
        (window,) = windower.single(tokens)
        ids, first = window.sequence.ids.tolist(), window.first_start
    return [
        {
            "id": token,
            "text": windower.tokenizer.vocabulary[token],
            "special": not first <= index < first + len(offsets),
            "start": offsets[index - first][0] if first <= index < first + len(offsets) else None,
            "stop": offsets[index - first][1] if first <= index < first + len(offsets) else None,
        }
        for index, token in enumerate(ids)
    ]


def _check_truncation(values: dict[str, Any]) -> None:
    read_flag(values, "truncate", default=False)
    direction = values.get("truncation_direction")
    if direction is not None and direction not in ("left", "right", "Left", "Right"):
        message = f"'truncation_direction' is {clip_repr(direction)}; it must be left or right"
        raise RefusalError(422, "invalid_input", message, where="truncation_direction")
