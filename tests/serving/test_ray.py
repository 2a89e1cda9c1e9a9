"""The application on Ray Serve: the same answers as one process, and a replica that is killed under load."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from spanlab.inference.writers import full_record
from spanlab.serving.served_model import ServedModel
from tests.docs.blocks import ROOT
from tests.serving.servers import MULTITASK, QUESTION, TEXT, cases, same

pytestmark = pytest.mark.slow
serve = pytest.importorskip("ray.serve", reason="ray[serve] is not installed")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Two replicas on a local cluster."""
    import ray

    from spanlab.serving.ray import RayConfig, app

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": 18765})
        config = RayConfig(models=[str(MULTITASK)], replicas=2, precision="fp32", queue=64)
        serve.run(app(config), name="spanlab", route_prefix="/")
        yield "http://127.0.0.1:18765"
    finally:
        serve.shutdown()
        ray.shutdown()


def test_answers_are_those_of_one_process(url: str, models: tuple[ServedModel, ...]) -> None:
    for case in cases():
        answer = httpx2.post(f"{url}/v1/{case['task']}", json=case["input"], timeout=60)
        (predicted,) = models[0].predictor.predict(case["input"], task=case["task"])
        assert same(answer.json(), full_record(predicted), 1e-3)
    wrong = httpx2.post(f"{url}/v1/names", json={"txt": "a"}, timeout=60)
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid_input")
    assert httpx2.get(f"{url}/health/ready", timeout=60).status_code == 200
    assert wrong.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_full_queue_is_429(url: str) -> None:
    statuses: list[int] = []

    def ask() -> None:
        answer = httpx2.post(f"{url}/v1/names", json=[f"{TEXT} " * 5] * 40, timeout=120)
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 429}
    assert 200 in statuses


def test_a_killed_replica_loses_nothing_that_is_asked_again(url: str) -> None:
    stop = threading.Event()
    failed: list[Any] = []
    answered: list[int] = []

    def ask() -> None:
        while not stop.is_set():
            for attempt in range(2):
                try:
                    answer = httpx2.post(f"{url}/v1/who", json=QUESTION, timeout=60)
                except httpx2.HTTPError as error:
                    outcome: Any = repr(error)
                else:
                    outcome = answer.status_code
                    if outcome == 200 and json.loads(answer.text)["answer"] == "Anna":
                        answered.append(1)
                        break
                if attempt == 1:
                    failed.append(outcome)
                time.sleep(0.5)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(2)
        _kill_a_replica()
        time.sleep(8)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert answered
    assert not failed


def _kill_a_replica() -> None:
    """As if its process had crashed."""
    import ray

    named = ray.util.list_named_actors(all_namespaces=True)
    replica = next(actor for actor in named if actor["name"].startswith("SERVE_REPLICA") and "spanlab" in actor["name"])
    ray.kill(ray.get_actor(replica["name"], namespace=replica["namespace"]))


def test_the_configuration_that_is_shipped() -> None:
    from spanlab.serving.ray import RayConfig

    described = yaml.safe_load((ROOT / "deploy" / "serve.yaml").read_text())
    (application,) = described["applications"]
    assert application["import_path"] == "spanlab.serving.ray:app"
    RayConfig(**application["args"])
    with pytest.raises(ValueError, match="modles"):
        RayConfig(modles=["a"])
    assert Path(ROOT / "deploy" / "compose.yaml").is_file()
