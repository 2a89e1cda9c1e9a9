"""Models in installed packages, such as `spanlab package` makes: found by name, verified, without running their code.

A package names its model in the entry point group `spanlab.models`: the name of the entry point is that of the model,
its value the module whose folder `model/` holds the files, and `model/SHA256SUMS` their hashes. The files are located
through the metadata of the distribution; nothing is imported.
"""

import re
from dataclasses import dataclass
from importlib.metadata import Distribution, entry_points
from pathlib import Path
from typing import Any

from spanlab.atomic_io import sha256_of
from spanlab.errors import InputError

GROUP = "spanlab.models"
"""The entry point group of packaged models."""
SUMS = "SHA256SUMS"
"""The file with the hashes of the others, as sha256sum writes it."""
_MODULE = re.compile(r"[A-Za-z_]\w*")
_SUM = re.compile(r"([0-9a-f]{64})  (\S.*)")


@dataclass(frozen=True, kw_only=True)
class PackagedModel:
    """A model that an installed distribution brings."""

    name: str
    """What it is used by."""
    distribution: str
    """What it is installed as."""
    version: str
    folder: Path

    def to_dict(self) -> dict[str, Any]:
        """The model for JSON."""
        return {
            "name": self.name,
            "distribution": self.distribution,
            "version": self.version,
            "tasks": list(self.tasks),
            "megabytes": round(self.megabytes, 1),
            "folder": str(self.folder),
        }

    @property
    def megabytes(self) -> float:
        """The size of its files in 1e6 bytes."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / 1e6

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it was trained for; none for an encoder."""
        from spanlab.strict_parsing import read_json  # with a parser of YAML, which no command's help needs

        path = self.folder / "spanlab.json"
        described = read_json(path) if path.is_file() else {}
        tasks = described.get("tasks") if isinstance(described, dict) else None
        if isinstance(tasks, dict):
            return tuple(map(str, tasks))
        task = described.get("task") if isinstance(described, dict) else None
        return (task,) if isinstance(task, str) else ()

    def verify(self) -> Path:
        """The folder, after every file was compared with its hash."""
        fix = f"use pip install --force-reinstall --no-deps {self.distribution}"
        sums = self.folder / SUMS
        if not sums.is_file():
            raise InputError(f"the package '{self.distribution}' has no {SUMS}", path=self.folder, fix=fix)
        matches = [_SUM.fullmatch(line) for line in sums.read_text(encoding="utf-8", errors="replace").splitlines()]
        listed = {match[2]: match[1] for match in matches if match is not None}
        files = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()}
        for name in sorted(files - {SUMS} | set(listed)):
            path = self.folder / name
            if name not in files or listed.get(name) != sha256_of(path):
                state = "missing" if name not in files else "not the packaged file (sha256)"
                raise InputError(f"{name} of the packaged model '{self.name}' is {state}", path=path, fix=fix)
        return self.folder


def find_packaged(name: str | None = None) -> list[PackagedModel]:
    """The packaged models of this installation, or those of one name: several where distributions clash."""
    points = entry_points(group=GROUP) if name is None else entry_points(group=GROUP, name=name)
    found: dict[tuple[str, str], PackagedModel] = {}
    for point in points:
        folder = _folder(point.dist, point.value)
        if folder is not None and point.dist is not None:
            model = PackagedModel(
                name=point.name, distribution=point.dist.name, version=point.dist.version, folder=folder
            )
            found.setdefault((model.name, model.distribution), model)  # the first on the path is the one imported
    return sorted(found.values(), key=lambda model: (model.name, model.distribution))


def packaged_folder(name: str) -> Path | None:
    """The verified folder of the packaged model of a name; None if there is none, an error if there are two."""
    models = find_packaged(name)
    if len(models) > 1:
        owners = " and ".join(model.distribution for model in models)
        cause = f"the packages {owners} both bring a model named '{name}'"
        raise InputError(cause, fix=f"use pip uninstall {models[-1].distribution}")
    return models[0].verify() if models else None


def _folder(distribution: Distribution | None, module: str) -> Path | None:
    """Where the files of a model are; None for an entry point that is no model's."""
    if distribution is None or _MODULE.fullmatch(module) is None:
        return None
    folder = Path(str(distribution.locate_file(module))) / "model"
    return folder if (folder / "config.json").is_file() else None
