"""A preparation that is killed, at any moment, resumes and gives the corpus of an undisturbed one."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
from spanlab.corpus.manifest import MANIFEST, WORK
from spanlab.corpus.prepare.run import Progress
from spanlab.corpus.prepare.writer import STATE, CorpusWriter
from spanlab.errors import InputError, SpanlabError
from spanlab.text import Tokenizer
from tests.breaking import Fuse, Killed
from tests.corpus.making import folder_digest

OPTIONS = PrepareConfig(documents="file", lines="sentences", segment_bytes=2500, shard_tokens=3000)


def prepare(tokenizer: Tokenizer, texts: Path, out: Path) -> None:
    run_preparation(plan_preparation([str(texts)], OPTIONS), tokenizer=tokenizer, out=out, commit_seconds=0)


def install(fuse: Fuse, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CorpusWriter, "_write", fuse.guard(CorpusWriter._write))
    patch.setattr(os, "fsync", fuse.guard(os.fsync))
    patch.setattr(Path, "replace", fuse.guard(Path.replace))


def operations_of_a_run(tokenizer: Tokenizer, texts: Path, out: Path) -> int:
    fuse = Fuse(10**9, Killed, halfway=False)
    with pytest.MonkeyPatch.context() as patch:
        install(fuse, patch)
        prepare(tokenizer, texts, out)
    return 10**9 - fuse.left


@pytest.mark.parametrize("halfway", [False, True], ids=["before", "after"])
def test_a_kill_around_any_operation_loses_nothing(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path, halfway: bool
) -> None:
    total = operations_of_a_run(tokenizer, texts, tmp_path / "whole")
    whole = folder_digest(tmp_path / "whole")
    assert total > 50
    for operations in range(total):
        out = tmp_path / f"out{operations}"
        with pytest.MonkeyPatch.context() as patch:
            install(Fuse(operations, Killed, halfway=halfway), patch)
            with pytest.raises(Killed):
                prepare(tokenizer, texts, out)
        looks_whole = (out / MANIFEST).exists()
        assert not looks_whole or folder_digest(out).items() >= whole.items()
        prepare(tokenizer, texts, out)
        assert folder_digest(out) == whole


def test_a_kill_while_a_corpus_is_replaced_leaves_nothing_of_the_old_one(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path
) -> None:
    prepare(tokenizer, texts, tmp_path / "whole")
    for operations in range(0, 40, 3):
        out = tmp_path / f"out{operations}"
        old = PrepareConfig(documents="line", lines="paragraphs", segment_bytes=500, shard_tokens=500)
        run_preparation(plan_preparation([str(texts)], old), tokenizer=tokenizer, out=out)
        with pytest.MonkeyPatch.context() as patch:
            fuse = Fuse(operations, Killed, halfway=True)
            install(fuse, patch)
            patch.setattr(Path, "unlink", fuse.guard(Path.unlink))
            with pytest.raises(Killed):
                run_preparation(plan_preparation([str(texts)], OPTIONS), tokenizer=tokenizer, out=out, overwrite=True)
        assert not (out / MANIFEST).exists()
        prepare(tokenizer, texts, out)
        assert folder_digest(out) == folder_digest(tmp_path / "whole")


def test_a_run_killed_again_and_again_gets_there(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    prepare(tokenizer, texts, tmp_path / "whole")
    out = tmp_path / "out"
    for _ in range(200):
        with pytest.MonkeyPatch.context() as patch:
            install(Fuse(30, Killed, halfway=True), patch)  # the tokenizer's files, which come together, take 19
            try:
                prepare(tokenizer, texts, out)
                break
            except Killed:
                pass
    assert folder_digest(out) == folder_digest(tmp_path / "whole")


@pytest.mark.parametrize("operations", [0, 7, 25, 40])
def test_a_full_disk_is_told_and_gone_on_from(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path, operations: int
) -> None:
    prepare(tokenizer, texts, tmp_path / "whole")
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        install(Fuse(operations, lambda: OSError(errno.ENOSPC, "No space left on device"), halfway=False), patch)
        with pytest.raises(InputError, match="out: the disk is full; free some space and run the same command again"):
            prepare(tokenizer, texts, out)
    assert not (out / MANIFEST).exists()
    prepare(tokenizer, texts, out)
    assert folder_digest(out) == folder_digest(tmp_path / "whole")


def test_a_worker_that_dies_is_told_and_gone_on_from(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    prepare(tokenizer, texts, tmp_path / "whole")

    def kill_a_worker(_: Progress) -> None:
        for worker in multiprocessing.active_children()[:1]:  # none is left where the pool has broken already
            worker.kill()

    plan = plan_preparation([str(texts)], replace(OPTIONS, segment_bytes=500, shard_tokens=600))
    with pytest.raises(SpanlabError, match=r"a worker process died .* run the command again with fewer --workers"):
        run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "out", workers=2, on_progress=kill_a_worker)
    run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "out", workers=2)
    run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "fresh", workers=1)
    assert folder_digest(tmp_path / "out") == folder_digest(tmp_path / "fresh")


SCRIPT = """
import sys
from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
from spanlab.text import Tokenizer

if __name__ == "__main__":
    texts, tokenizer, out = sys.argv[1:]
    options = PrepareConfig(documents="line", lines="paragraphs", segment_bytes=20_000, shard_tokens=60_000)
    plan = plan_preparation([texts], options)
    run_preparation(plan, tokenizer=Tokenizer.load(tokenizer), out=out, workers=2, commit_seconds=0)
"""


def start(script: Path, *arguments: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(script), *map(str, arguments)], start_new_session=True)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition() and process.poll() is None:
        time.sleep(0.002)


def processes_of(session: int) -> list[int]:
    """Living processes of a session, without the first one."""
    processes = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z" and int(stat.parent.name) != session:
            processes.append(int(stat.parent.name))
    return processes


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_sigkill_at_several_moments(tokenizer_folder: Path, tmp_path: Path) -> None:
    script, text, out = tmp_path / "run.py", tmp_path / "text.txt", tmp_path / "out"
    script.write_text(SCRIPT)
    lines = (
        f"{chr(97 + k % 26)}{chr(97 + k // 26 % 26)}{chr(97 + k // 676 % 26)} word {k % 100}\n" for k in range(30_000)
    )
    text.write_text("".join(lines))
    assert start(script, text, tokenizer_folder, tmp_path / "whole").wait() == 0
    shards = sorted((tmp_path / "whole").glob("shard-*.bin"))
    assert len(shards) >= 3
    moments: list[Callable[[], bool]] = [
        (out / WORK).exists,
        (out / WORK / STATE).exists,
        (out / shards[0].name).exists,
        lambda: (out / WORK / "tokens").stat().st_size > 30_000,
        (out / shards[1].name).exists,
        (out / shards[2].name).exists,
    ]
    killed = 0
    for moment in moments:
        process = start(script, text, tokenizer_folder, out)
        wait_for(moment, process)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
        wait_until_gone(process.pid)
    assert killed >= 4
    assert not (out / MANIFEST).exists()
    assert start(script, text, tokenizer_folder, out).wait() == 0
    assert folder_digest(out) == folder_digest(tmp_path / "whole")


def wait_until_gone(session: int) -> None:
    """Workers must not outlive a killed parent."""
    for _ in range(1000):
        if not processes_of(session):
            return
        time.sleep(0.01)
    raise AssertionError(f"workers {processes_of(session)} live on")
