"""Models that several tests share."""

from pathlib import Path

import pytest

from tests.integrations.models import train_classes, train_entities


@pytest.fixture(scope="session")
def entity_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_entities(tiny_model, tmp_path_factory.mktemp("entities") / "run", head="tag")


@pytest.fixture(scope="session")
def class_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_classes(tiny_model, tmp_path_factory.mktemp("classes") / "run")
