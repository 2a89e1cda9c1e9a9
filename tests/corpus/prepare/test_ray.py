from pathlib import Path

import pytest

from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
from spanlab.errors import InputError, MissingExtraError
from spanlab.text import Tokenizer
from tests.corpus.making import folder_digest

OPTIONS = PrepareConfig(documents="file", lines="sentences", segment_bytes=2500, shard_tokens=3000)


def test_ray_gives_the_bytes_of_local_workers(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the ray extra is not installed")
    plan = plan_preparation([str(texts)], OPTIONS)
    run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "local", workers=1)
    run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "ray", workers=2, engine="ray")
    assert folder_digest(tmp_path / "ray") == folder_digest(tmp_path / "local")


def test_an_error_in_a_ray_task_is_the_user_s_error(tokenizer: Tokenizer, texts: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the ray extra is not installed")
    (texts / "07-bad.txt").write_bytes(b"ab\xff")
    plan = plan_preparation([str(texts)], OPTIONS)
    with pytest.raises(InputError, match=r"07-bad\.txt:1: byte 2 \(0xff\) is not UTF-8 text"):
        run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "ray", workers=2, engine="ray")


def test_a_missing_ray_is_told(
    tokenizer: Tokenizer, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    plan = plan_preparation([str(texts)], OPTIONS)
    with pytest.raises(MissingExtraError, match=r"--engine ray needs the 'ray' extra; pip install 'spanlab\[ray\]'"):
        run_preparation(plan, tokenizer=tokenizer, out=tmp_path / "ray", workers=2, engine="ray")
