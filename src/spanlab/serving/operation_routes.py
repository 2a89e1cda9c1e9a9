"""What operators ask a server: whether it lives, whether it is ready, and its metrics."""

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from spanlab.serving.refusals import RefusalError
from spanlab.serving.state import Serving


def operation_router(serving: Serving) -> APIRouter:
    """`/health/live`, `/health/ready` and `/metrics`."""
    router = APIRouter()

    async def live() -> Response:
        """The process answers."""
        return Response('{"status": "live"}', media_type="application/json")

    async def ready() -> Response:
        """Requests are taken; 503 from the signal to end on."""
        if serving.draining:
            raise RefusalError(503, "draining", "the server is about to end")
        return Response('{"status": "ready"}', media_type="application/json")

    async def metrics() -> Response:
        """Times, batch sizes and refusals, in the text format of Prometheus."""
        return Response(serving.metrics.to_text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    router.add_api_route("/health/live", live, methods=["GET"])
    ending: dict[int | str, dict[str, Any]] = {503: {"description": "The server is about to end."}}
    router.add_api_route("/health/ready", ready, methods=["GET"], responses=ending)
    router.add_api_route("/metrics", metrics, methods=["GET"], response_class=PlainTextResponse)
    return router
