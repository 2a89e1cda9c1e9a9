"""A path or a hub id in, a model folder on disk out: the folder itself, the `model/` of a run, or a download."""

import re
from pathlib import Path

from spanlab.errors import InputError

_HUB_ID = re.compile(r"^[\w-][\w.-]*(/[\w.-]+)?$")
_SMALL_FILES = ("*.json", "*.txt", "*.model")


def locate_model(folder_or_id: str | Path, *, revision: str | None = None) -> Path:
    """The folder with `config.json`: the one named, the `model/` of a run, or a downloaded repository."""
    folder = Path(folder_or_id).expanduser()
    if folder.is_dir():
        return _model_folder(folder)
    if folder.exists():
        raise InputError("this is a file, not a model folder", path=folder, fix="convert it with spanlab convert")
    if isinstance(folder_or_id, str) and _HUB_ID.match(folder_or_id):
        return _model_folder(_download(folder_or_id, revision))
    raise InputError("no such model folder", path=folder)


def _model_folder(folder: Path) -> Path:
    for candidate in (folder, folder / "model"):
        if (candidate / "config.json").is_file():
            return candidate
    raise InputError("no config.json in this folder", path=folder, fix="give a model folder or a run folder")


def _download(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    def fetch(*patterns: str) -> Path:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(patterns)))

    try:
        folder = fetch(*_SMALL_FILES, "*.safetensors")
        if not any(folder.glob("*.safetensors")):
            folder = fetch(*_SMALL_FILES, "*.bin")
    except LocalEntryNotFoundError:
        cause = f"no folder '{repository}' here, and the hub does not answer"
        raise InputError(cause, fix="check the path or the connection") from None
    except (HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"no folder '{repository}' here, and the hub refuses it ({reason})") from None
    return folder
