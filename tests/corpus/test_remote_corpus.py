"""Corpora on object storage: an S3 server on this machine, and what the store, the cache and a kill may do to them."""

import contextlib
import hashlib
import importlib
import json
import logging
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.corpus import remote_corpus as remote_corpora
from spanlab.corpus.gazetteer import write_spans
from spanlab.corpus.manifest import INDEX, MANIFEST, SPANS, Manifest
from spanlab.corpus.object_store import RemoteFolder
from spanlab.corpus.remote_corpus import cache_folder, local_copy
from spanlab.corpus.verify import find_damage
from spanlab.errors import InputError
from spanlab.text import Tokenizer
from tests.breaking import Fuse, Killed
from tests.cli.run import run_here
from tests.corpus.making import folder_digest

OPTIONS = PrepareConfig(documents="file", lines="sentences", segment_bytes=1500, shard_tokens=2000)
BUCKET = "s3://corpora"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A local S3 server without data; its address."""
    pytest.importorskip("s3fs", reason="the s3 extra is not installed")
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the server, with one empty bucket; credentials are dummies, the cache is the test's own."""
    import boto3
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "dummy")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "dummy")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("SPANLAB_CACHE", str(tmp_path / "cache"))
    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="corpora")
    yield client
    for item in objects(client):
        client.delete_object(Bucket="corpora", Key=item)
    s3fs.S3FileSystem.clear_instance_cache()


def objects(client: Any) -> dict[str, str]:
    """The sha256 of every object by its key."""
    found = client.list_objects_v2(Bucket="corpora").get("Contents", [])
    bodies = {item["Key"]: client.get_object(Bucket="corpora", Key=item["Key"])["Body"].read() for item in found}
    return {key: hashlib.sha256(body).hexdigest() for key, body in bodies.items()}


def corpus_at(client: Any, prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): digest for key, digest in objects(client).items() if key.startswith(prefix)}


def prepare(tokenizer: Tokenizer, texts: Path | str, out: Path | str, **options: Any) -> Manifest:
    plan = plan_preparation([str(texts)], options.pop("config", OPTIONS))
    return run_preparation(plan, tokenizer=tokenizer, out=out, commit_seconds=0, **options)


def without_index(digests: dict[str, str]) -> dict[str, str]:
    """The files of a corpus folder, without what can be computed again."""
    return {name: digest for name, digest in digests.items() if not name.startswith((INDEX, "."))}


# Round trips.


def test_a_corpus_on_s3_is_that_of_a_folder_to_the_byte(
    store: Any, tokenizer: Tokenizer, texts: Path, tmp_path: Path
) -> None:
    manifest = prepare(tokenizer, texts, tmp_path / "folder")
    assert prepare(tokenizer, texts, f"{BUCKET}/a/corpus") == manifest
    assert len(manifest.shards) > 2
    assert corpus_at(store, "a/corpus/") == folder_digest(tmp_path / "folder")
    assert not list((cache_folder() / "preparing").glob("*/"))
    shutil.rmtree(cache_folder())
    corpus = PreparedCorpus.open(f"{BUCKET}/a/corpus")
    assert without_index(folder_digest(corpus.folder)) == folder_digest(tmp_path / "folder")
    assert corpus.source == f"{BUCKET}/a/corpus"
    ours, theirs = corpus.read([0], [500]), PreparedCorpus.open(tmp_path / "folder").read([0], [500])
    assert ours.ids.tolist() == theirs.ids.tolist()
    assert find_damage(f"{BUCKET}/a/corpus") == []


def test_text_is_read_from_urls(store: Any, tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    import gzip

    for path in sorted(texts.iterdir()):
        store.put_object(Bucket="corpora", Key=f"texts/{path.name}", Body=path.read_bytes())
    store.put_object(Bucket="corpora", Key="texts/.hidden.txt", Body=b"hidden")
    store.put_object(Bucket="corpora", Key="zip/all.txt.gz", Body=gzip.compress((texts / "00.txt").read_bytes()))
    here = prepare(tokenizer, texts, tmp_path / "here")
    for number, name in enumerate((f"{BUCKET}/texts", f"{BUCKET}/texts/*.txt")):
        there = prepare(tokenizer, name, tmp_path / f"there{number}", workers=1 + number)
        assert (there.shards, there.counts) == (here.shards, here.counts)
    sources = [json.loads(line)["source"] for line in (tmp_path / "there0" / "inputs.jsonl").read_text().splitlines()]
    assert sources == [f"{BUCKET}/texts/{path.name}" for path in sorted(texts.iterdir())]
    one = prepare(tokenizer, f"{BUCKET}/zip/all.txt.gz", tmp_path / "one")
    assert one.shards == prepare(tokenizer, texts / "00.txt", tmp_path / "same").shards
    with pytest.raises(InputError, match=r"^s3://corpora/none: no \.txt, .* file in this folder"):
        prepare(tokenizer, f"{BUCKET}/none", tmp_path / "none")


def test_training_from_s3_is_training_from_the_folder(store: Any, small_corpus: Path, tmp_path: Path) -> None:
    from spanlab.workflows.pretrain import resumed_job, run_job
    from tests.pretraining.making import job
    from tests.workflows.running import assert_same_run

    for path in small_corpus.rglob("*"):
        if path.is_file() and INDEX not in path.parts:
            store.put_object(Bucket="corpora", Key=f"small/{path.relative_to(small_corpus)}", Body=path.read_bytes())
    settings = ("training.steps=6", "training.save_every=3")
    run_job(job("spanbert", small_corpus, tmp_path / "folder", *settings))
    run_job(job("spanbert", (f"{BUCKET}/small:2",), tmp_path / "s3", *settings))
    assert_same_run(tmp_path / "folder", tmp_path / "s3")
    resumed = resumed_job(str(tmp_path / "s3"))
    assert resumed.data == (f"{BUCKET}/small:2.0",)
    assert "small" in (tmp_path / "s3" / "model" / "README.md").read_text()


def test_names_are_found_beside_the_corpus(store: Any, tokenizer: Tokenizer, texts: Path) -> None:
    url = f"{BUCKET}/named"
    prepare(tokenizer, texts, url)
    other_machine = local_copy(url)
    assert not (other_machine / SPANS).exists()
    count = write_spans(PreparedCorpus.open(url), ["file x", "m"])
    assert count > 0
    shutil.rmtree(cache_folder())
    assert len((local_copy(url) / SPANS).read_text().splitlines()) == count
    store.put_object(Bucket="corpora", Key=f"named/{SPANS}", Body=b'{"start": 0, "end": 1}\n')
    assert len((local_copy(url) / SPANS).read_text().splitlines()) == 1
    store.delete_object(Bucket="corpora", Key=f"named/{SPANS}")
    assert not (local_copy(url) / SPANS).exists()


def test_the_command_line(store: Any, tokenizer_folder: Path, texts: Path) -> None:
    url = f"{BUCKET}/by/command"
    made = run_here("prepare", str(texts), "--tokenizer", str(tokenizer_folder), "--out", url)
    assert made.returncode == 0, made.stderr
    assert url in made.stdout
    shutil.rmtree(cache_folder())
    shown = run_here("inspect", "corpus", url, "--verify")
    assert shown.returncode == 0, shown.stderr
    assert f" MB to {cache_folder() / 'corpora' / 'command-'}" in shown.stderr
    assert "verified: every file is as it was written" in shown.stderr
    assert re.search(r"^copy +/", shown.stdout, re.MULTILINE)
    assert "downloading" not in run_here("inspect", "corpus", url).stderr


# The cache.


def test_a_corpus_is_downloaded_once_and_again_where_it_was_prepared_anew(
    store: Any, tokenizer: Tokenizer, texts: Path
) -> None:
    url, sizes = f"{BUCKET}/corpus", []
    manifest = prepare(tokenizer, texts, url)
    shutil.rmtree(cache_folder())
    first = local_copy(url, lambda size, folder: sizes.append((size, folder)))
    assert sizes == [(sum(record.bytes for record in (*manifest.shards, *manifest.files)), first)]
    assert local_copy(url, lambda *_: pytest.fail("it is downloaded again")) == first
    prepare(tokenizer, texts, url, config=replace(OPTIONS, min_tokens=3, documents="line"), overwrite=True)
    second = local_copy(url)
    assert second != first
    assert PreparedCorpus.open(url).counts != PreparedCorpus.open(first).counts
    assert corpus_at(store, "corpus/") == without_index(folder_digest(second))


def test_processes_wait_for_the_one_that_downloads(
    store: Any, tokenizer: Tokenizer, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tokenizer, texts, f"{BUCKET}/corpus")
    shutil.rmtree(cache_folder())
    read: list[str] = []
    chunks = RemoteFolder.chunks

    def counted(self: RemoteFolder, name: str) -> Iterator[bytes]:
        read.append(name)
        yield from chunks(self, name)

    monkeypatch.setattr(RemoteFolder, "chunks", counted)
    threads = [threading.Thread(target=local_copy, args=(f"{BUCKET}/corpus",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read) == sorted(set(read))
    assert len(read) > 3


def test_a_killed_download_goes_on_with_what_is_missing(
    store: Any, tokenizer: Tokenizer, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tokenizer, texts, tmp_path / "folder")
    prepare(tokenizer, texts, f"{BUCKET}/corpus")
    shutil.rmtree(cache_folder())
    monkeypatch.setattr(remote_corpora, "_AT_ONCE", 1)
    fetched: list[str] = []
    download = remote_corpora._download_file

    def noted(remote: RemoteFolder, record: Any, folder: Path) -> None:
        download(remote, record, folder)
        fetched.append(record.file)

    for operations in (0, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(remote_corpora, "_download_file", Fuse(operations, Killed, halfway=False).guard(noted))
            with pytest.raises(Killed):
                local_copy(f"{BUCKET}/corpus")
    (copy,) = (cache_folder() / "corpora").iterdir()
    assert not (copy / MANIFEST).exists()
    (copy / "shard-00002.bin.partial").write_bytes(b"what a kill leaves")
    monkeypatch.setattr(remote_corpora, "_download_file", noted)
    assert local_copy(f"{BUCKET}/corpus") == copy
    assert sorted(fetched) == sorted(set(fetched))
    assert without_index(folder_digest(copy)) == folder_digest(tmp_path / "folder")


@pytest.mark.parametrize("name", ["shard-00001.bin", "token_counts.bin"])
def test_a_damaged_object_is_named(store: Any, tokenizer: Tokenizer, texts: Path, name: str) -> None:
    url = f"{BUCKET}/corpus"
    prepare(tokenizer, texts, url)
    shutil.rmtree(cache_folder())
    body = bytearray(store.get_object(Bucket="corpora", Key=f"corpus/{name}")["Body"].read())
    body[len(body) // 2] ^= 1
    store.put_object(Bucket="corpora", Key=f"corpus/{name}", Body=bytes(body))
    with pytest.raises(InputError, match=rf"^{url}/{name}: its bytes changed: sha256 .*; copy the corpus there again"):
        PreparedCorpus.open(url)
    assert [(item.file, item.cause[:17]) for item in find_damage(url)] == [(name, "its bytes changed")]
    result = run_here("inspect", "corpus", url, "--verify")
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"spanlab: {url}/{name}: its bytes changed")
    store.put_object(Bucket="corpora", Key=f"corpus/{name}", Body=bytes(body[:-1]))
    with pytest.raises(InputError, match=rf"^{url}/{name}: \d+ bytes long, not {len(body)} as written"):
        PreparedCorpus.open(url)
    store.delete_object(Bucket="corpora", Key=f"corpus/{name}")
    with pytest.raises(InputError, match=rf"^{url}/{name}: missing"):
        PreparedCorpus.open(url)
    assert [(item.file, item.cause) for item in find_damage(url)] == [(name, "missing")]


def test_another_tokenizer_there_is_damage(store: Any, tokenizer: Tokenizer, texts: Path) -> None:
    url = f"{BUCKET}/corpus"
    prepare(tokenizer, texts, url)
    shutil.rmtree(cache_folder())
    key = "corpus/tokenizer/tokenizer.json"
    content = json.loads(store.get_object(Bucket="corpora", Key=key)["Body"].read())
    vocabulary = content["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    store.put_object(Bucket="corpora", Key=key, Body=json.dumps(content).encode())
    with pytest.raises(InputError, match=rf"^{url}/tokenizer: another tokenizer"):
        PreparedCorpus.open(url)
    assert [item.file for item in find_damage(url)] == ["tokenizer"]


# Interruptions.


def guarded_store(fuse: Fuse, patch: pytest.MonkeyPatch) -> None:
    for name in ("put", "write", "remove"):
        patch.setattr(RemoteFolder, name, fuse.guard(getattr(RemoteFolder, name)))


@pytest.mark.parametrize("halfway", [False, True], ids=["before", "after"])
def test_a_kill_around_any_object_loses_nothing(
    store: Any, tokenizer: Tokenizer, texts: Path, tmp_path: Path, halfway: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_corpora, "_AT_ONCE", 1)
    prepare(tokenizer, texts, tmp_path / "whole")
    whole = folder_digest(tmp_path / "whole")
    url, put = f"{BUCKET}/corpus", []
    for operations in range(len(whole) + 2):  # a mark before, all files, and the mark's removal
        for key in objects(store):
            store.delete_object(Bucket="corpora", Key=key)
        shutil.rmtree(cache_folder(), ignore_errors=True)
        with pytest.MonkeyPatch.context() as patch:
            guarded_store(Fuse(operations, Killed, halfway=halfway), patch)
            with pytest.raises(Killed):
                prepare(tokenizer, texts, url)
        there = corpus_at(store, "corpus/")
        if MANIFEST in there:
            assert there.items() >= whole.items()
            PreparedCorpus.open(url)
            continue
        with pytest.raises(InputError, match=r"its preparation was interrupted; run the same|not a prepared corpus"):
            PreparedCorpus.open(url)
        with pytest.MonkeyPatch.context() as patch:
            counting = Fuse(10**9, Killed, halfway=False)
            patch.setattr(RemoteFolder, "put", counting.guard(RemoteFolder.put))
            prepare(tokenizer, texts, url)
            put.append(10**9 - counting.left)
        assert corpus_at(store, "corpus/") == whole
    assert put[-1] <= 1 < put[0]  # what an interrupted upload has copied is not copied again


def test_a_preparation_killed_before_its_upload_is_resumed(
    store: Any, tokenizer: Tokenizer, texts: Path, tmp_path: Path
) -> None:
    def stop(_: object) -> None:
        raise Killed

    prepare(tokenizer, texts, tmp_path / "whole")
    url = f"{BUCKET}/corpus"
    with pytest.raises(Killed):
        prepare(tokenizer, texts, url, on_progress=stop)
    with pytest.raises(InputError, match=f"^{url}: its preparation was interrupted; run the same `spanlab prepare`"):
        PreparedCorpus.open(url)
    with pytest.raises(InputError, match="started with documents file, not line"):
        prepare(tokenizer, texts, url, config=replace(OPTIONS, documents="line"))
    prepare(tokenizer, texts, url)
    assert corpus_at(store, "corpus/") == folder_digest(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda texts: {"config": replace(OPTIONS, min_tokens=4)}, "started with other options"),
        (lambda texts: (texts / "00.txt").write_text("other") and {}, "started with other input"),
    ],
    ids=["options", "input"],
)
def test_an_interrupted_upload_goes_on_with_the_same_preparation_only(
    store: Any, tokenizer: Tokenizer, texts: Path, change: Callable[[Path], dict[str, Any]], message: str
) -> None:
    url = f"{BUCKET}/corpus"
    with pytest.MonkeyPatch.context() as patch:
        guarded_store(Fuse(3, Killed, halfway=False), patch)
        with pytest.raises(Killed):
            prepare(tokenizer, texts, url)
    changed = {} if (options := change(texts)) == 5 else options
    with pytest.raises(InputError, match=rf"^{url}: .*{message}"):
        prepare(tokenizer, texts, url, **(changed or {}))
    prepare(tokenizer, texts, url, **(changed or {}), overwrite=True)
    assert find_damage(url) == []


def test_a_replaced_corpus_leaves_no_object_of_the_old_one(store: Any, tokenizer: Tokenizer, texts: Path) -> None:
    url = f"{BUCKET}/corpus"
    prepare(tokenizer, texts, url)
    with pytest.raises(InputError, match=f"^{url}: it holds a prepared corpus; use --overwrite to replace it"):
        prepare(tokenizer, texts, url)
    manifest = prepare(tokenizer, texts, url, config=replace(OPTIONS, shard_tokens=1 << 20), overwrite=True)
    assert len(manifest.shards) == 1
    assert {name for name in corpus_at(store, "corpus/") if name.startswith("shard")} == {"shard-00000.bin"}


# What is refused, in one line.


def test_a_place_with_something_else_is_left_alone(store: Any, tokenizer: Tokenizer, texts: Path) -> None:
    store.put_object(Bucket="corpora", Key="mine/thesis.txt", Body=b"irreplaceable")
    with pytest.raises(InputError, match=r"^s3://corpora/mine: it holds 'thesis\.txt', which is not a corpus's"):
        prepare(tokenizer, texts, f"{BUCKET}/mine", overwrite=True)
    assert list(corpus_at(store, "mine/")) == ["thesis.txt"]


def one_line(*arguments: str) -> str:
    result = run_here(*arguments)
    assert result.returncode == 2, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("spanlab: ")]
    assert "Traceback" not in result.stderr
    return line


def test_what_is_not_there_is_one_line(
    store: Any, tokenizer_folder: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("prepare", str(texts), "--tokenizer", str(tokenizer_folder), "--out")
    assert one_line(*command, "s3://no-bucket/corpus").startswith("spanlab: s3://no-bucket/corpus")
    assert "no such bucket" in one_line(*command, "s3://no-bucket/corpus")
    assert "not a prepared corpus" in one_line("inspect", "corpus", f"{BUCKET}/nothing")
    assert "no such bucket" in one_line("pretrain", "spanbert", "--data", "s3://no-bucket/a:2", "--out", "run")
    assert "unheard" in one_line("inspect", "corpus", "unheard://of/corpus")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    line = one_line("inspect", "corpus", f"{BUCKET}/nothing")
    assert line.startswith(f"spanlab: {BUCKET}/nothing/{MANIFEST}: no credentials (")
    assert line.endswith("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what else the store asks for")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = importlib.import_module("fsspec.registry")._registry
    monkeypatch.delitem(loaded, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert one_line("inspect", "corpus", "s3://a/b").endswith("needs the 's3' extra; pip install 'spanlab[s3]'")


def test_other_file_systems(tokenizer: Tokenizer, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL of any kind that fsspec knows: a folder here."""
    monkeypatch.setenv("SPANLAB_CACHE", str(tmp_path / "cache"))
    prepare(tokenizer, texts, tmp_path / "folder")
    prepare(tokenizer, f"file://{texts}", f"file://{tmp_path}/there/corpus")
    ours, theirs = folder_digest(tmp_path / "there" / "corpus"), folder_digest(tmp_path / "folder")
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "there" / "corpus" / ".prepare").rmdir()
    different = {name for name in theirs if ours.get(name) != theirs[name]}
    assert different <= {"inputs.jsonl", MANIFEST}  # they name the sources
    assert PreparedCorpus.open(f"file://{tmp_path}/there/corpus").counts.documents == 12
