"""The curl commands of the page about serving, run against a server."""

import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from spanlab.serving.served_model import load_served
from spanlab.serving.settings import ServeSettings
from tests.docs.blocks import ROOT, blocks_of
from tests.docs.shell import commands_of, parse_command
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


def test_the_files_for_containers_name_what_exists() -> None:
    described = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    words = [
        word.replace("${MODEL:-spanbert-mini-en}", "MODEL") for word in described["services"]["spanlab"]["command"]
    ]
    parse_command(shlex.join(["spanlab", "serve", *words]))
    target = described["services"]["spanlab"]["build"]["target"]
    assert f"FROM base AS {target}" in (ROOT / "Dockerfile").read_text()
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["spanlab:8000"]
    (secret,) = described["secrets"]
    assert words[words.index("--api-key-file") + 1] == scraped["authorization"]["credentials_file"]
    assert scraped["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
