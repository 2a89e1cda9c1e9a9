"""A real server with small trained models, and a real browser that looks at its page."""

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.serving.servers import DATA, SPANBERT, RunningServer, running_server
from tests.tiny_model import write_tiny_model
from tests.web.browsing import Visit, write_run

TASKS = DATA / "tasks"
MODELS = ("multitask", "coref", "relation-joint", "ner-span", "summarisation", "similarity", "relation-pairs")


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one of them below a folder of a study."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "first", range(1, 40), state="finished")
    write_run(folder / "study" / "second", range(1, 21), state="running")
    return folder


@pytest.fixture(scope="session")
def server(runs_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    tiny = write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    models = [TASKS / name for name in MODELS]
    with running_server(*models, TASKS / "generation-both", SPANBERT, tiny, "--runs", runs_folder) as server:
        wait_until_ready(server)
        yield server


def wait_until_ready(server: RunningServer) -> None:
    """Return when the server answers."""
    for _ in range(300):
        with suppress(httpx2.TransportError), server.client() as client:
            if client.get("/health/ready").status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail("the server does not get ready: " + "".join(server.log))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, server: RunningServer, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """The page in a light window of a desk; other settings by `pytest.mark.parametrize(..., indirect=True)`."""
    theme, width = getattr(request, "param", ("light", 1280))
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        base_url=server.url,
        permissions=["clipboard-read", "clipboard-write"],
    )
    visit = Visit(context.new_page(), width)
    visit.open()
    yield visit
    context.close()
    assert not visit.complaints, visit.complaints
