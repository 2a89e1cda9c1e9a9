"""Requests that schemathesis makes of the OpenAPI description: answers are as described, and never 5xx."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from tests.serving.listening import listening


@pytest.mark.slow
def test_answers_are_as_described(models: tuple[ServedModel, ...]) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

    checks = [not_a_server_error, status_code_conformance, content_type_conformance]
    with listening(ServeSettings(), models) as (host, port):
        schema = schemathesis.openapi.from_url(f"http://{host}:{port}/openapi.json")
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()

            @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy())
            def check(case: Any) -> None:
                case.call_and_validate(checks=checks)

            check()
            tried += 1
        assert tried == 19
