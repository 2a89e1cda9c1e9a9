"""A path, a name or a hub id in, a model folder out: itself, the `model/` of a run, one in the box, a download."""

import re
from itertools import islice
from pathlib import Path

from spanlab.errors import InputError, did_you_mean, nearest
from spanlab.models import NAMES, WHAT_A_MODEL_IS, find_packaged, folder_of

_HUB_ID = re.compile(r"^[\w-][\w.-]*(/[\w.-]+)?$")
_MOST_NEIGHBOURS = 10_000
_SMALL_FILES = ("*.json", "*.txt", "*.model")


def locate_model(folder_or_id: str | Path, *, revision: str | None = None) -> Path:
    """The folder with `config.json`: the one named, the `model/` of a run, one in the box, or a downloaded repository.

    A folder here comes before a model of the same name in the box, with a warning. A name with a folder that exists
    here (`runs/x`), or in the form of a path (`./x`, `a/b/c`), is never asked of the hub.
    """
    named = folder_of(folder_or_id) if isinstance(folder_or_id, str) else None
    folder = named or Path(folder_or_id).expanduser()
    if folder.is_dir():
        return _model_folder(folder)
    if folder.exists():
        texts = {".jsonl", ".json", ".csv", ".tsv", ".txt", ".conll", ".yaml", ".npy"}
        fix = "give a model folder" if folder.suffix in texts else "convert it with spanlab convert"
        raise InputError("this is a file, not a model folder", path=folder, fix=fix)
    near = _near_folder(folder)
    hint = f" (did you mean '{near}'?)" if near is not None else did_you_mean(str(folder_or_id), _names())
    is_id = isinstance(folder_or_id, str) and _HUB_ID.match(folder_or_id) is not None
    has_owner = len(folder.parts) > 1
    if is_id and not (has_owner and folder.parent.is_dir()):
        return _model_folder(_download(str(folder_or_id), revision, hint))
    fix = f"give {WHAT_A_MODEL_IS}"
    if is_id:
        fix += f"; '{folder.parent}' is a folder here, so the hub is not asked"
    raise InputError(f"no such model folder{hint}", path=folder, fix=fix)


def _names() -> tuple[str, ...]:
    return (*NAMES, *(model.name for model in find_packaged()))


def _near_folder(folder: Path) -> Path | None:
    """The folder that a path is probably meant to be: each part that does not exist is replaced by the nearest."""
    here = Path(folder.anchor)
    for part in folder.parts[1 if folder.anchor else 0 :]:
        near: str | None = part
        if not (here / part).is_dir():
            try:
                near = nearest(part, [path.name for path in islice(here.iterdir(), _MOST_NEIGHBOURS) if path.is_dir()])
            except OSError:
                return None
        if near is None:
            return None
        here /= near
    return here


def _model_folder(folder: Path) -> Path:
    for candidate in (folder, folder / "model"):
        if (candidate / "config.json").is_file():
            return candidate
    raise InputError("no config.json in this folder", path=folder, fix="give a model folder or a run folder")


def _download(repository: str, revision: str | None, hint: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    def fetch(*patterns: str) -> Path:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(patterns)))

    try:
        folder = fetch(*_SMALL_FILES, "*.safetensors")
        if not any(folder.glob("*.safetensors")):
            folder = fetch(*_SMALL_FILES, "*.bin")
    except LocalEntryNotFoundError:
        cause = f"no folder '{repository}' here{hint}, and the hub does not answer"
        fix = f"check the path or the name; for the hub the connection, or fetch it once with hf download {repository}"
        raise InputError(cause, fix=fix) from None
    except (HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"no folder '{repository}' here{hint}, and the hub refuses it ({reason})") from None
    return folder
