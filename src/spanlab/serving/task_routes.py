"""`POST /v1/TASK` for every task of every model, `/v1/all` for all of them together, and `/v1/fill`."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from spanlab.errors import SpanlabError, clip_repr
from spanlab.inference.masked_text import MASK
from spanlab.inference.predictor import with_context
from spanlab.inference.writers import to_json
from spanlab.serving.bodies import SINGLE, check_keys, parse_body, parse_object, read_inputs
from spanlab.serving.refusals import RefusalError, invalid
from spanlab.serving.schemas import describe_all, describe_fill, describe_task
from spanlab.serving.served_model import ServedModel
from spanlab.serving.state import Serving
from spanlab.tasks.base import AnyTask
from spanlab.tasks.formats.row import Row

_MOST_CANDIDATES = 100
_MOST_MASKS, _MOST_CHARACTERS = 32, 20_000
"""In a text to be filled, which is computed as a whole, once for every mask."""


def task_router(serving: Serving) -> APIRouter:
    """A route for each task that a model has; the last answers for tasks that none has."""
    router = APIRouter()

    async def of_all(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, _predict_all(serving, request.query_params.get("model"), body))

    async def fill(request: Request) -> Response:
        body = await request.body()
        return await serving.answer(request, _fill(serving, request.query_params.get("model"), body))

    async def of_task(request: Request) -> Response:
        task = request.path_params.get("task") or request.url.path.rpartition("/")[2]
        body = await request.body()
        return await serving.answer(request, _predict(serving, request.query_params.get("model"), task, body))

    if any(model.tasks for model in serving.models):
        router.add_api_route("/v1/all", of_all, methods=["POST"], openapi_extra=describe_all(serving.models))
    if any(model.filler for model in serving.models):
        router.add_api_route("/v1/fill", fill, methods=["POST"], openapi_extra=describe_fill())
    for name, task in _tasks(serving.models).items():
        router.add_api_route(
            f"/v1/{name}",
            of_task,
            methods=["POST"],
            operation_id=f"predict_{name}",
            openapi_extra=describe_task(name, task),
        )
    return router


def unknown_task_router(serving: Serving) -> APIRouter:
    """Answers for tasks that no model has; included after all other routes."""
    router = APIRouter()

    async def unknown(task: str) -> Response:
        serving.model(None, task=task)
        raise RefusalError(404, "unknown_task", f"no model has what /v1/{task} needs", where="path")

    router.add_api_route("/v1/{task}", unknown, methods=["POST"], include_in_schema=False)
    return router


def _tasks(models: Sequence[ServedModel]) -> dict[str, AnyTask]:
    """The tasks by name, each as the first model with it has it."""
    return {name: task for model in reversed(models) for name, task in model.tasks.items()}


async def _predict(serving: Serving, model_name: str | None, task: str, body: bytes) -> Response:
    serving.batcher.check_room()
    model = serving.model(model_name, task=task)
    inputs = await serving.in_pool(read_inputs, body, model.tasks[task])
    answers = await serving.predict(model, task, inputs.rows, inputs.ids)
    if inputs.is_list:
        content = await serving.in_pool(_as_list, serving, answers, inputs.ids)
        return Response(content, media_type="application/json")
    return Response(_single(answers), media_type="application/json")


def _as_list(serving: Serving, answers: Sequence[str | RefusalError], ids: Sequence[str]) -> str:
    """The answers of a list; a refused input is an object with its error."""
    items = []
    for name, answer in zip(ids, answers, strict=True):
        if isinstance(answer, RefusalError):
            serving.metrics.count_refusal(answer.code)
            items.append(to_json({"id": name, "error": answer.to_dict()}))
        else:
            items.append(answer)
    return f"[{', '.join(items)}]"


def _single(answers: Sequence[str | RefusalError]) -> str:
    (answer,) = answers
    if isinstance(answer, RefusalError):
        raise answer
    return answer


async def _predict_all(serving: Serving, model_name: str | None, body: bytes) -> Response:
    serving.batcher.check_room()
    values = await serving.in_pool(parse_object, body, ("text", "question", "id"), ("text",))
    model = next((model for model in serving.models if model.tasks), None)
    if model_name is not None or model is None:
        model = serving.model(model_name)
    given = with_context({key: value for key, value in values.items() if value is not None})
    tasks = [name for name, task in model.tasks.items() if task.shape.fits(given)]
    if not tasks:
        raise RefusalError(422, "invalid_input", f"'{model.name}' has no task for these fields", where="body")
    row = Row(values=given, path=SINGLE)
    answers = await serving.predict(model, tasks, [row], [str(values.get("id", 0))])
    return Response(_single(answers), media_type="application/json")


async def _fill(serving: Serving, model_name: str | None, body: bytes) -> Response:
    serving.batcher.check_room()
    values = await serving.in_pool(parse_body, body)
    if isinstance(values, str):
        values = {"text": values}
    if not isinstance(values, dict):
        raise RefusalError(422, "invalid_body", 'the body must be an object such as {"text": …}', where="body")
    check_keys(values, ("text", "top"), "body")
    text, top = values.get("text"), values.get("top", 5)
    if not isinstance(text, str):
        raise RefusalError(422, "invalid_input", f"'text' is {clip_repr(text)}; it must be a text", where="text")
    if not isinstance(top, int) or isinstance(top, bool) or not 1 <= top <= _MOST_CANDIDATES:
        message = f"'top' is {clip_repr(top)}; it must be a number from 1 to {_MOST_CANDIDATES}"
        raise RefusalError(422, "invalid_input", message, where="top")
    candidates = [model for model in serving.models if model.filler is not None]
    model = serving.model(model_name) if model_name is not None else candidates[0]
    filler = model.filler
    if filler is None:
        message = f"'{model.name}' has no mlm head: it cannot fill masks"
        raise RefusalError(404, "unknown_task", message, where="model")
    masks = sum(text.count(mask) for mask in _masks(model))
    if masks > _MOST_MASKS or len(text) > _MOST_CHARACTERS:
        message = f"a text to be filled has at most {_MOST_MASKS} masks and {_MOST_CHARACTERS:,} characters"
        raise RefusalError(422, "invalid_input", f"{message}; this one has {masks} and {len(text):,}", where="text")
    try:
        result = await serving.run(lambda: filler.fill(text, top=top))
    except SpanlabError as error:
        raise invalid(error, "text") from None
    return Response(await serving.in_pool(lambda: to_json(result.to_dict())), media_type="application/json")


def _masks(model: ServedModel) -> set[str]:
    """How masks are written: as users do, and as the tokenizer does."""
    tokenizer = model.predictor.model.tokenizer
    return {MASK} if tokenizer.mask_id is None else {MASK, tokenizer.vocabulary[tokenizer.mask_id]}
