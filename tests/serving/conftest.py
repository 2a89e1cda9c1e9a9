"""A server in this process with a model of four tasks and one that fills masks."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from spanlab.serving.app import create_app
from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from tests.serving.servers import MULTITASK, SPANBERT, load_models


@pytest.fixture(scope="session")
def models() -> tuple[ServedModel, ...]:
    return load_models(MULTITASK, SPANBERT)


@pytest.fixture(scope="module")
def client(models: tuple[ServedModel, ...]) -> Iterator[TestClient]:
    with TestClient(create_app(ServeSettings(), models), raise_server_exceptions=False) as client:
        yield client
