"""The curl commands of the page about serving, run against a server."""

import re
import shlex
import shutil
import subprocess

import pytest

from spanlab.serving.served_model import load_served
from spanlab.serving.settings import ServeSettings
from tests.docs.blocks import ROOT, blocks_of
from tests.docs.shell import commands_of
from tests.serving.listening import listening
from tests.serving.servers import DATA, SPANBERT

PAGE = ROOT / "docs" / "how-to" / "serve.md"


def test_the_commands_of_the_page_get_answers() -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    blocks = [block for block in blocks_of(PAGE) if "curl" in block.text]
    commands = [command for block in blocks for command in commands_of(block)]
    assert len(commands) >= 4
    tasks = {"qa": str(DATA / "tasks" / "qa-span"), "ner": str(DATA / "tasks" / "ner-span")}
    served = load_served([str(SPANBERT)], tasks=tasks, precision="fp32")
    with listening(ServeSettings(), served) as (host, port):
        for command in commands:
            words = shlex.split(re.sub(r"localhost:8000", f"{host}:{port}", command))
            done = subprocess.run([*words, "--fail"], capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, (command, done.stderr)
            assert done.stdout[:1] in "[{"
            assert '"error": {' not in done.stdout
