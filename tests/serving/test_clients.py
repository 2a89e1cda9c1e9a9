"""The routes that other servers' clients know: OpenAI's package, and text-embeddings-inference."""

import base64
from collections.abc import Iterator

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from spanlab.serving.app import create_app
from spanlab.serving.served_model import ServedModel
from spanlab.serving.settings import ServeSettings
from tests.serving.listening import listening
from tests.serving.servers import QUESTION, SPANBERT, TEXT, load_models

TEXTS = [TEXT, "The mayor of Oslo crossed the river.", "", "Ivan swam at sea. " * 60]


KEY = "correct-horse-battery"


@pytest.fixture(scope="module")
def url(models: tuple[ServedModel, ...]) -> Iterator[str]:
    """A server with a key, on a socket."""
    with listening(ServeSettings(api_key=KEY), models) as (host, port):
        yield f"http://{host}:{port}"


def test_openais_client(url: str, models: tuple[ServedModel, ...]) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    assert [model.id for model in client.models.list()] == ["multitask", "spanbert"]
    assert client.models.retrieve("spanbert").id == "spanbert"
    for name, model in zip(("multitask", "spanbert"), models, strict=True):
        wanted = model.predictor.encode(TEXTS)
        # The client asks for base64 unless told otherwise.
        for options in ({}, {"encoding_format": "float"}):
            answer = client.embeddings.create(model=name, input=TEXTS, **options)
            vectors = np.array([one.embedding for one in answer.data])
            assert [one.index for one in answer.data] == [0, 1, 2, 3]
            assert vectors == pytest.approx(wanted, abs=1e-4)
            assert answer.model == name
            assert answer.usage.prompt_tokens == answer.usage.total_tokens > 100
    single = client.embeddings.create(model="spanbert", input=TEXT)
    assert len(single.data) == 1
    with pytest.raises(openai.NotFoundError, match="no model 'gpt'"):
        client.embeddings.create(model="gpt", input=TEXT)
    with pytest.raises(openai.UnprocessableEntityError, match="must be a text"):
        client.embeddings.create(model="spanbert", input=[[1, 2]])
    with pytest.raises(openai.UnprocessableEntityError, match="the vectors of 'spanbert' have"):
        client.embeddings.create(model="spanbert", input=TEXT, dimensions=3)
    wrong = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong-horse-battery", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        wrong.models.list()


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", "Basic correct-horse-battery", "Bearer ‑é"])
def test_a_key_is_asked_for(url: str, header: str | None) -> None:
    headers = [] if header is None else [(b"authorization", header.encode())]
    with httpx2.Client(base_url=url, timeout=60) as client:
        answer = client.post("/v1/who", json=QUESTION, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "unauthorized"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/metrics", headers=headers).status_code == 401
        assert client.get("/health/ready", headers=headers).status_code == 200
        right = client.post("/v1/who", json=QUESTION, headers={"Authorization": f"bearer {KEY}"})
        assert right.json()["answer"] == "Anna"


def test_vectors_as_from_text_embeddings_inference(client: TestClient, models: tuple[ServedModel, ...]) -> None:
    wanted = models[0].predictor.encode(TEXTS)
    assert np.array(client.post("/embed", json={"inputs": TEXTS}).json()) == pytest.approx(wanted, abs=1e-4)
    (single,) = client.post("/embed?model=spanbert", json={"inputs": TEXT, "truncate": True}).json()
    assert np.array(single) == pytest.approx(models[1].predictor.encode(TEXT), abs=1e-4)
    assert client.post("/embed", json={"inputs": []}).json() == []
    for body in ({"inputs": TEXT, "normalize": False}, {"inputs": 3}, {"inputs": TEXT, "dimensions": []}, {}, []):
        assert client.post("/embed", json=body).status_code == 422


def test_base64_is_little_endian_float32(client: TestClient) -> None:
    body = {"input": TEXT, "encoding_format": "base64"}
    encoded = client.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]
    plain = client.post("/v1/embeddings", json={"input": TEXT}).json()["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(encoded), "<f4") == pytest.approx(np.array(plain), abs=1e-5)


@pytest.mark.parametrize("change", [{"encoding_format": []}, {"encoding_format": "hex"}, {"model": {}}, {"input": {}}])
def test_values_of_the_wrong_type(client: TestClient, change: dict[str, object]) -> None:
    answer = client.post("/v1/embeddings", json={"input": TEXT, **change})
    assert (answer.status_code, answer.json()["error"]["where"]) == (422, next(iter(change)))


def test_ranking_by_a_similarity_task(client: TestClient, models: tuple[ServedModel, ...]) -> None:
    texts = ["The mayor of Oslo crossed the river.", TEXT, "Ivan swam."]
    ranked = client.post("/rerank", json={"query": TEXT, "texts": texts, "return_text": True}).json()
    scores = [models[0].predictor.predict((TEXT, text), task="alike")[0].score for text in texts]
    assert [one["index"] for one in ranked] == sorted(range(3), key=lambda index: -scores[index])
    assert all(one["score"] == pytest.approx(scores[one["index"]], abs=1e-3) for one in ranked)
    assert all(one["text"] == texts[one["index"]] for one in ranked)


def test_ranking_by_vectors_where_there_is_no_such_task(client: TestClient, models: tuple[ServedModel, ...]) -> None:
    texts = ["The mayor of Oslo crossed the river.", TEXT]
    ranked = client.post("/rerank?model=spanbert", json={"query": TEXT, "texts": texts}).json()
    assert [one["index"] for one in ranked] == [1, 0]
    assert ranked[0]["score"] == pytest.approx(1.0, abs=1e-4)
    vectors = models[1].predictor.encode([TEXT, texts[0]])
    assert ranked[1]["score"] == pytest.approx(vectors[0] @ vectors[1], abs=1e-4)
    assert client.post("/rerank", json={"query": TEXT, "texts": []}).json() == []
    assert client.post("/rerank", json={"query": TEXT, "texts": TEXT}).status_code == 422
    for name in ("multitask", "spanbert"):
        empty = client.post(f"/rerank?model={name}", json={"query": TEXT, "texts": [TEXT, " "]})
        assert (empty.status_code, empty.json()["error"]["where"]) == (422, "texts[1]")


def test_tokens_with_their_offsets(client: TestClient, models: tuple[ServedModel, ...]) -> None:
    (tokens,) = client.post("/tokenize", json={"inputs": TEXT}).json()
    tokenizer = models[0].predictor.model.tokenizer
    plain = tokenizer.encode(TEXT)
    assert [token["special"] for token in tokens] == [True, *[False] * len(plain), True]
    assert [token["id"] for token in tokens[1:-1]] == plain.ids.tolist()
    assert [tokens[0]["id"], tokens[-1]["id"]] == [tokenizer.cls_id, tokenizer.sep_id]
    assert all(TEXT[token["start"] : token["stop"]].lower() in TEXT.lower() for token in tokens[1:-1])
    assert [(token["start"], token["stop"]) for token in tokens[1:3]] == list(
        zip(plain.starts[:2].tolist(), plain.ends[:2].tolist(), strict=True)
    )
    (bare,) = client.post("/tokenize", json={"inputs": [TEXT], "add_special_tokens": False}).json()
    assert bare == tokens[1:-1]
    assert len(client.post("/tokenize", json={"inputs": ["a", TEXT * 500]}).json()[1]) > 5000


def test_what_a_client_asks_first(client: TestClient) -> None:
    info = client.get("/info").json()
    assert info["model_id"] == "multitask"
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert info["max_batch_tokens"] == 4096
    assert client.get("/info?model=spanbert").json()["model_id"] == "spanbert"


def test_every_example_of_the_description_works_as_it_stands(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    tried = 0
    for path, methods in paths.items():
        if "post" not in methods:
            continue
        content = methods["post"]["requestBody"]["content"]["application/json"]
        name = "?model=spanbert" if path == "/v1/fill" else ""
        answer = client.post(path + name, json=content["example"])
        assert answer.status_code == 200, (path, answer.text)
        tried += 1
    assert tried == 12


def test_pages_of_others_are_let_in_only_if_asked_for(client: TestClient) -> None:
    answer = client.get("/health/live", headers={"Origin": "https://example.org"})
    assert "access-control-allow-origin" not in answer.headers
    app = create_app(ServeSettings(cors=("https://example.org",), api_key="a-long-key"), load_models(SPANBERT))
    with TestClient(app) as other:
        asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
        assert other.options("/embed", headers=asked).headers["access-control-allow-origin"] == "https://example.org"
        refused = other.post("/embed", json={"inputs": "a"}, headers={"Origin": "https://example.org"})
        assert refused.status_code == 401
