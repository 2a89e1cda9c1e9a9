"""A model folder to the Hugging Face hub."""

from pathlib import Path

from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError

# What a model folder holds; a folder may hold more, and more is not sent.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "README.md", "generator/*")


def push_model(folder: str | Path, repository: str, *, private: bool, message: str) -> str:
    """Make the repository if need be, and upload the folder in one commit; the commit's address."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if not Path(folder).is_dir():
        raise InputError("no such model folder", path=folder)
    here = locate_model(folder)
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository, folder_path=here, commit_message=message, allow_patterns=list(_FILES)
        )
    except (HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"the hub refuses '{repository}' ({reason})", fix="check the name and `hf auth login`"
        ) from None
    return str(commit.commit_url)
