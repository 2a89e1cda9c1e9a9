"""Models and settings to a FastAPI application: the routers, the gate in front of them, and the page."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from spanlab.serving.explain import explain_router
from spanlab.serving.gate import Gate
from spanlab.serving.openai_routes import openai_router
from spanlab.serving.operation_routes import operation_router
from spanlab.serving.refusals import Code, RefusalError, error_response
from spanlab.serving.runs import runs_router
from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from spanlab.serving.state import Serving
from spanlab.serving.task_routes import task_router, unknown_task_router
from spanlab.serving.tei_routes import tei_router
from spanlab.version import __version__

PAGE = Path(__file__).parent / "page"


def create_app(settings: ServeSettings, models: Sequence[ServedModel]) -> FastAPI:
    """The application of a server; `app.state.serving` is what its routes share."""
    serving = Serving(settings, models)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with serving.running():
            yield

    # The pages that FastAPI documents itself with load scripts from another host.
    app = FastAPI(
        title="SpanLab",
        version=__version__,
        summary="Span tasks over HTTP.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.serving = serving
    app.add_exception_handler(HTTPException, _explain)
    app.add_middleware(Gate, serving=serving)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.cors, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    app.include_router(operation_router(serving))
    app.include_router(openai_router(serving))
    app.include_router(tei_router(serving))
    app.include_router(task_router(serving))
    # Further routers are included here: the last one takes every path under /v1/.
    app.include_router(explain_router(serving))
    app.include_router(runs_router(serving))
    app.include_router(unknown_task_router(serving))
    _mount_page(app)
    return app


async def _explain(request: Request, error: Exception) -> Response:
    """What the framework refuses, in the words of all other errors."""
    assert isinstance(error, HTTPException)
    codes: dict[int, tuple[Code, str]] = {
        404: ("unknown_route", "there is no such path; /openapi.json lists what there is"),
        405: ("method_not_allowed", f"this path does not take {request.method}"),
    }
    code, message = codes.get(error.status_code, ("invalid_body", str(error.detail)))
    return error_response(RefusalError(error.status_code, code, message, where="path", headers=error.headers))


def _mount_page(app: FastAPI) -> None:
    """`/` and `/static/`, if the page is there."""
    if not (PAGE / "index.html").is_file():
        return

    async def index() -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.add_api_route("/", index, methods=["GET"], include_in_schema=False)
    app.mount("/static", StaticFiles(directory=PAGE), name="static")
