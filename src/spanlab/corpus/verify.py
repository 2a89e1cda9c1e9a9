"""Is a prepared corpus what its manifest says? Every file is read and its sha256 compared."""

from dataclasses import dataclass
from pathlib import Path

from spanlab.atomic_io import sha256_of
from spanlab.corpus.manifest import TOKENIZER, FileRecord, Manifest, ShardRecord, read_manifest
from spanlab.errors import SpanlabError
from spanlab.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A file that is not as it was written."""

    file: str
    cause: str


def find_damage(folder: str | Path) -> list[Damage]:
    """The damaged or missing files of a corpus folder, in the order of the manifest; none if it is whole."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    records: tuple[FileRecord | ShardRecord, ...] = (*manifest.shards, *manifest.files)
    found = [(record.file, _file_damage(folder, record)) for record in records]
    found.append((TOKENIZER, _tokenizer_damage(folder, manifest)))
    found.append(("manifest.json", _count_damage(manifest)))
    return [Damage(file=file, cause=cause) for file, cause in found if cause]


def _file_damage(folder: Path, record: FileRecord | ShardRecord) -> str | None:
    path = folder / record.file
    if not path.is_file():
        return "missing"
    if (size := path.stat().st_size) != record.bytes:
        return f"{size} bytes long, not {record.bytes} as written"
    if (digest := sha256_of(path)) != record.sha256:
        return f"its bytes changed: sha256 {digest[:12]}…, not {record.sha256[:12]}… as written"
    return None


def _tokenizer_damage(folder: Path, manifest: Manifest) -> str | None:
    try:
        fingerprint = Tokenizer.load(folder / TOKENIZER).fingerprint
    except SpanlabError as error:
        return str(error)
    prepared = manifest.tokenizer.fingerprint
    if fingerprint == prepared:
        return None
    return f"another tokenizer ({fingerprint[:12]}…) than the corpus was prepared with ({prepared[:12]}…)"


def _count_damage(manifest: Manifest) -> str | None:
    for name in ("tokens", "sentences", "documents"):
        total = sum(getattr(record, name) for record in manifest.shards)
        if total != getattr(manifest.counts, name):
            return f"its shards hold {total} {name}, its counts say {getattr(manifest.counts, name)}"
    return None
