"""Upload a model folder to the Hugging Face hub."""

from pathlib import Path

from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError

MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "README.md", "generator/*")
"""Patterns of the files of a model; other files in its folder are not given away."""


def push_model(folder: str | Path, repository: str, *, private: bool, message: str, bars: bool = False) -> str:
    """Create the repository if it does not exist and upload the folder in one commit; the URL of the commit.

    `bars`: let the hub's client draw its progress on stderr.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars  # type: ignore[attr-defined]

    if not Path(folder).is_dir():
        raise InputError("no such model folder", path=folder)
    model_folder = locate_model(folder)
    (enable_progress_bars if bars else disable_progress_bars)()
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository, folder_path=model_folder, commit_message=message, allow_patterns=list(MODEL_FILES)
        )
    except (HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"the hub refuses '{repository}' ({reason})", fix="check the name and `hf auth login`"
        ) from None
    return str(commit.commit_url)
