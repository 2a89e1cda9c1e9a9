"""A single line of 200 MB is prepared, cut where it must be, in bounded memory."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import re, sys
from pathlib import Path
from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
from spanlab.text import Tokenizer

text, tokenizer, out = sys.argv[1:]
manifest = run_preparation(plan_preparation([text], PrepareConfig()), tokenizer=Tokenizer.load(tokenizer), out=out)
counts = manifest.counts
# Not ru_maxrss: a child begins with its parent's peak there, and the parent here is a test run with torch loaded.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)) * 1024
print(counts.documents, counts.cut, counts.tokens, peak)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_a_line_of_200_megabytes_is_prepared_in_bounded_memory(tokenizer_folder: Path, tmp_path: Path) -> None:
    words, size = 1_700_000, 119  # too long for the vocabulary: each word is one unknown token, which is quick
    with (tmp_path / "line.txt").open("w") as file:
        for first in range(0, words, 10_000):
            file.write("".join(f"{word % 997:0{size}d} " for word in range(first, first + 10_000)))
    assert (tmp_path / "line.txt").stat().st_size > 200_000_000
    command = [sys.executable, "-c", SCRIPT, tmp_path / "line.txt", tokenizer_folder, tmp_path / "out"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents, cuts, tokens, peak = map(int, output.split())
    assert (documents, cuts, tokens) == (13, 12, words)
    assert peak < 400_000_000
