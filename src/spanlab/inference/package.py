"""A model folder becomes a wheel: `pip install` of it, and the model is used by its name.

The wheel is written by the standard library and is the same to the byte for the same model. It holds one module, which
has nothing but a docstring, the model folder with the hashes of its files, and the entry point by which
`spanlab.models.packages` finds them.
"""

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from spanlab.atomic_io import open_atomically, sha256_of
from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError
from spanlab.inference.push import MODEL_FILES
from spanlab.models import NAMES
from spanlab.models.box import bundled_model
from spanlab.models.packages import GROUP, SUMS
from spanlab.strict_parsing import read_json
from spanlab.version import __version__

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?")
_WEIGHTS = ("model.safetensors", "heads.safetensors", "model.safetensors.index.json")
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The date of every file: a wheel of the same model has the same bytes."""
_BLOCK = 1 << 20


def package_model(
    model: str | Path, out: Path, *, name: str | None = None, version: str = "1.0", overwrite: bool = False
) -> Path:
    """Write the wheel of a model folder, run folder or name; returns its path.

    Args:
        model: what is packaged.
        out: the folder of the wheel.
        name: what the model will be used by; None: the name of its folder, or of its run's.
        version: of the package.
        overwrite: replace a wheel of the same name and version.
    """
    folder = locate_model(model)
    name = _checked_name(name or _own_name(model, folder))
    if not _VERSION.fullmatch(version):
        raise InputError(f"'{version}' is not a version", fix="write one such as 1.0 or 1.2.3")
    if not any((folder / weights).is_file() for weights in _WEIGHTS):
        raise InputError("no safetensors in this folder", path=folder, fix="use spanlab convert first")
    module = "spanlab_model_" + re.sub(r"[._-]+", "_", name.lower())
    wheel = out / f"{module}-{version}-py3-none-any.whl"
    if wheel.exists() and not overwrite:
        raise InputError("file exists", path=wheel, fix="use another --version, or --overwrite")
    out.mkdir(parents=True, exist_ok=True)
    files = dict(model_files(folder))
    info = f"{module}-{version}.dist-info"
    texts = {
        f"{module}/__init__.py": f'"""The model {name!r} for SpanLab: spanlab.load({name!r})."""\n',
        f"{module}/model/{SUMS}": "".join(f"{sha256_of(path)}  {inner}\n" for inner, path in files.items()),
        f"{info}/METADATA": _metadata(module.replace("_", "-"), name, version, folder),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: spanlab {__version__}\nRoot-Is-Purelib: true\nTag: "
        "py3-none-any\n",
        f"{info}/entry_points.txt": f"[{GROUP}]\n{name} = {module}\n",
    }
    _write_wheel(wheel, texts, {f"{module}/model/{inner}": path for inner, path in files.items()}, f"{info}/RECORD")
    return wheel


def model_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a model, by their paths in its folder."""
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).as_posix()
        if path.is_file() and any(fnmatch(inner, pattern) for pattern in MODEL_FILES):
            yield inner, path


def _own_name(model: str | Path, folder: Path) -> str:
    """What a model is called: the name given, the folder's, or that of the run whose model it is."""
    given = Path(model)
    if not given.is_dir():
        return given.name
    return folder.resolve().parent.name if folder.name == "model" else folder.resolve().name


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"a packaged model cannot be called '{name}'", fix="give --name of letters, digits, - and _")
    if name in NAMES:
        cause = f"'{name}' is the name of a model in the box, which would come first"
        raise InputError(cause, fix="give another --name")
    return name


def _metadata(distribution: str, name: str, version: str, folder: Path) -> str:
    """The metadata of the package; the model card, without its front matter, is its description."""
    described = read_json(folder / "spanlab.json") if (folder / "spanlab.json").is_file() else {}
    base = described.get("base") if isinstance(described, dict) else None
    bundled = bundled_model(str(base.get("name"))) if isinstance(base, dict) else None
    extra = "" if bundled is None or bundled.extra is None else f"[{bundled.extra}]"
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else f"# {name}\n"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {distribution}",
        f"Version: {version}",
        f"Summary: The model {json.dumps(name)} for SpanLab",
        f"Requires-Dist: spanlab{extra}>={__version__}",
        "Requires-Python: >=3.11",
        "Description-Content-Type: text/markdown",
        "",
        re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip(),
    ]
    return "\n".join(lines) + "\n"


def _write_wheel(wheel: Path, texts: Mapping[str, str], files: Mapping[str, Path], record: str) -> None:
    """Write texts and files into the archive, and last the record of their hashes and sizes."""
    rows = []
    with open_atomically(wheel) as target, zipfile.ZipFile(target, "w") as archive:
        for name, path in files.items():
            with path.open("rb") as source:
                rows.append(_add(archive, name, iter(lambda: source.read(_BLOCK), b"")))
        rows += [_add(archive, name, iter([text.encode()])) for name, text in texts.items()]
        _add(archive, record, iter(["".join([*rows, f"{record},,\n"]).encode()]))


def _add(archive: zipfile.ZipFile, name: str, blocks: Iterator[bytes]) -> str:
    """Add one file; its line in the record."""
    entry = zipfile.ZipInfo(name, _OLDEST)
    entry.external_attr = 0o644 << 16
    # Weights do not get smaller.
    entry.compress_type = zipfile.ZIP_STORED if name.endswith(".safetensors") else zipfile.ZIP_DEFLATED
    digest, size = hashlib.sha256(), 0
    with archive.open(entry, "w", force_zip64=True) as target:
        for block in blocks:
            target.write(block)
            digest.update(block)
            size += len(block)
    return f"{name},sha256={base64.urlsafe_b64encode(digest.digest()).rstrip(b'=').decode()},{size}\n"
