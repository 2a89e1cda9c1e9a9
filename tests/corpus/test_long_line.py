import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, sys
from spanlab.corpus import Options, plan_preparation, run_preparation
from spanlab.text import Tokenizer

text, tokenizer, out = sys.argv[1:]
manifest = run_preparation(plan_preparation([text], Options()), tokenizer=Tokenizer.load(tokenizer), out=out)
counts = manifest.counts
print(counts.documents, counts.cut, counts.tokens, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
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
