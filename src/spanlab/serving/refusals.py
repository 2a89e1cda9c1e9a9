"""What a server does not answer: each refusal has a status, a code for programs, a message and a place for people."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from fastapi.responses import Response

from spanlab.errors import InputError, SpanlabError, clip, escape

Code = Literal[
    "invalid_body",
    "invalid_input",
    "unknown_route",
    "unknown_task",
    "unknown_model",
    "method_not_allowed",
    "unauthorized",
    "body_too_large",
    "body_timeout",
    "wrong_content_type",
    "queue_full",
    "draining",
    "timeout",
    "internal",
]
_LONGEST = 700


class RefusalError(Exception):
    """A request, or one input of it, that gets an error in place of a result."""

    def __init__(
        self,
        status: int,
        code: Code,
        message: str,
        *,
        where: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.where, self.headers = status, code, where, dict(headers or {})
        self.message = clip(escape(message), _LONGEST)

    def to_dict(self) -> dict[str, Any]:
        """The `error` object of an answer."""
        return {"code": self.code, "message": self.message, "where": self.where}


def invalid(error: SpanlabError, where: str | None = None) -> RefusalError:
    """The refusal of an input, from the error that reading or encoding it raised."""
    if not isinstance(error, InputError):
        return RefusalError(422, "invalid_input", str(error), where=where)
    message = f"{error.cause}; {error.fix}" if error.fix else error.cause
    return RefusalError(422, "invalid_input", message, where=str(error.path) if error.path is not None else where)


def error_response(refusal: RefusalError) -> Response:
    """The answer of a refused request."""
    content = json.dumps({"error": refusal.to_dict()})
    return Response(content, refusal.status, refusal.headers, "application/json")
