"""What the machine can do: bf16 where oneDNN may use it."""

import os
import subprocess
import sys


def test_bf16_is_not_there_where_it_may_not_be_used() -> None:
    code = "from spanlab.machine import has_bf16_instructions; print(has_bf16_instructions())"
    held = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=held)
    assert done.stdout == "False\n"
