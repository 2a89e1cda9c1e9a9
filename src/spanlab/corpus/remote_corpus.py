"""A prepared corpus on object storage: written there with its manifest last, and read from a copy on this machine.

Shards are mapped into memory and read at random, so they are downloaded once, as a whole, into the cache: the folder
that SPANLAB_CACHE names, else `spanlab` in the user's cache. There a corpus has a folder of its own, named after its
URL and manifest; a file gets its name when its sha256 is that of the manifest, and the manifest comes last. One process
downloads, others on the machine wait for it; after a kill what is there is not downloaded again.

A preparation writes to a working folder in the cache, which an interrupted one is resumed from, and is uploaded when it
is complete. While it is under way the URL holds `.prepare/`, and no manifest: whoever reads then is told so. The cost
is that the machine that prepares needs room for the whole corpus.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spanlab.atomic_io import locked, open_atomically, readable_disk_errors, write_atomically, write_json
from spanlab.corpus.manifest import (
    MANIFEST,
    SPANS,
    TOKENIZER,
    WORK,
    FileRecord,
    Manifest,
    ShardRecord,
    changed_bytes,
    is_plain_name,
    parse_manifest,
    read_manifest,
    tokenizer_damage,
)
from spanlab.corpus.object_store import RemoteFolder
from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json, read_json

_AT_ONCE = 4
"""Objects that are copied at the same time."""
_STARTED = f"{WORK}/started"
_SPANS_KEY = ".spans-key"
_OURS = re.compile(
    r"manifest\.json|shard-\d+\.bin|token_counts\.bin|inputs\.jsonl|spans\.jsonl|(tokenizer|\.prepare)/.+"
)

OnDownload = Callable[[int, Path], None]
"""Called with the bytes that are about to be downloaded, and the folder of the cache they go to."""


def cache_folder() -> Path:
    """Where copies of remote corpora are kept."""
    chosen = os.environ.get("SPANLAB_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spanlab"


def read_remote_manifest(folder: RemoteFolder) -> tuple[Manifest, bytes]:
    """The manifest of the corpus at a URL, also as it is stored; or why there is none."""
    url = folder.url_of(MANIFEST)
    try:
        data = folder.read(MANIFEST)
    except FileNotFoundError:
        names = folder.sizes()
        if any(name.startswith(f"{WORK}/") for name in names):
            cause, fix = "its preparation was interrupted", "run the same `spanlab prepare` again to resume it"
        else:
            cause, fix = f"not a prepared corpus (no {MANIFEST})", "check the URL, or make one with spanlab prepare"
        raise InputError(cause, path=folder.url, fix=fix) from None
    return parse_manifest(parse_json(data, path=url, fix="prepare the corpus again", integers="40 digits"), url), data


# Reading: a copy in the cache.


def local_copy(url: str, on_download: OnDownload | None = None) -> Path:
    """The folder with a copy of the corpus at a URL; what is not there yet is downloaded and checked."""
    remote = RemoteFolder(url)
    manifest, data = read_remote_manifest(remote)
    folder = _copy_of(remote.url, data)
    with readable_disk_errors(folder, "free some space, or set SPANLAB_CACHE to a folder on another disk"):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".lock", None):
            if not (folder / MANIFEST).is_file():
                _download(remote, manifest, folder, on_download)
                write_atomically(folder / MANIFEST, data)
            _update_spans(remote, folder)
    return folder


def _copy_of(url: str, manifest: bytes) -> Path:
    """A corpus that is prepared anew under the same URL has another copy."""
    fingerprint = hashlib.sha256(url.encode() + b"\n" + manifest).hexdigest()[:16]
    name = re.sub(r"[^\w.-]", "-", url.rpartition("/")[2])[:60]
    return cache_folder() / "corpora" / f"{name}-{fingerprint}"


def _download(remote: RemoteFolder, manifest: Manifest, folder: Path, on_download: OnDownload | None) -> None:
    sizes = remote.sizes()
    records: tuple[FileRecord | ShardRecord, ...] = (*manifest.shards, *manifest.files)
    absent = [record for record in records if not (folder / record.file).is_file()]
    if on_download is not None:
        on_download(sum(record.bytes for record in absent), folder)
    for record in absent:
        if (size := sizes.get(record.file)) != record.bytes:
            cause = "missing" if size is None else f"{size} bytes long, not {record.bytes} as written"
            raise damaged_object(remote, record.file, cause)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda record: _download_file(remote, record, folder), absent))
    check_remote_tokenizer(remote, sizes, manifest, folder)


def _download_file(remote: RemoteFolder, record: FileRecord | ShardRecord, folder: Path) -> None:
    with open_atomically(folder / record.file) as file:
        digest = hashlib.sha256()
        for chunk in remote.chunks(record.file):
            file.write(chunk)
            digest.update(chunk)
        if digest.hexdigest() != record.sha256:
            raise damaged_object(remote, record.file, changed_bytes(digest.hexdigest(), record.sha256))


def check_remote_tokenizer(remote: RemoteFolder, names: Iterable[str], manifest: Manifest, folder: Path) -> None:
    """Fetch the tokenizer of a corpus into a folder; raise if it is not the one of the manifest."""
    (folder / TOKENIZER).mkdir(exist_ok=True)
    for name in names:
        part, _, file = name.partition("/")
        if part == TOKENIZER and is_plain_name(file):
            write_atomically(folder / TOKENIZER / file, remote.read(name))
    if (cause := tokenizer_damage(folder, manifest)) is not None:
        raise damaged_object(remote, TOKENIZER, cause)


def _update_spans(remote: RemoteFolder, folder: Path) -> None:
    """Fetch the places of names, which the manifest does not list, where they have changed."""
    key, known = remote.key(SPANS), folder / _SPANS_KEY
    if key == (known.read_text() if known.is_file() else ""):
        return
    with open_atomically(folder / SPANS) as file:
        for chunk in remote.chunks(SPANS) if key else ():
            file.write(chunk)
    if not key:
        (folder / SPANS).unlink()
    write_atomically(known, key.encode())


def damaged_object(remote: RemoteFolder, name: str, cause: str) -> InputError:
    """The error for an object that is not what the manifest says."""
    return InputError(cause, path=remote.url_of(name), fix="copy the corpus there again, or prepare it again")


# Writing: a working folder, then its objects.


class Publication:
    """The place of a corpus at a URL, which a preparation is going to fill."""

    def __init__(self, url: str, *, overwrite: bool) -> None:
        """Refuse a place that may not be written to, before anything is prepared."""
        self._remote = RemoteFolder(url)
        names = self._remote.sizes()
        if MANIFEST in names and not overwrite:
            raise InputError("it holds a prepared corpus", path=url, fix="use --overwrite to replace it")
        foreign = next((name for name in names if not _OURS.fullmatch(name)), None)
        if foreign is not None:
            raise InputError(f"it holds '{foreign}', which is not a corpus's", path=url, fix="choose another --out")
        self._remote.write(_STARTED, b"this preparation is not complete\n")
        self.folder = cache_folder() / "preparing" / hashlib.sha256(self._remote.url.encode()).hexdigest()[:16]
        """The working folder: the corpus is prepared here."""

    def upload(self) -> None:
        """Copy the prepared corpus to its place, the manifest last, and keep it as this machine's copy."""
        manifest, data = read_manifest(self.folder), (self.folder / MANIFEST).read_bytes()
        records: tuple[FileRecord | ShardRecord, ...] = (*manifest.shards, *manifest.files)
        files = [record.file for record in records]
        files += [str(path.relative_to(self.folder)) for path in sorted((self.folder / TOKENIZER).iterdir())]
        there = self._remote.sizes()
        fingerprint = hashlib.sha256(data).hexdigest()
        done = self._uploaded(fingerprint)
        for name in (MANIFEST, *(name for name in there if name not in {*files, _STARTED, MANIFEST})):
            if name in there:
                self._remote.remove(name)  # of an earlier corpus, whose manifest goes first
        absent = [name for name in files if name not in done or there.get(name) != (self.folder / name).stat().st_size]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for name in pool.map(self._put, absent):
                done.append(name)
                write_json(self._log, {"manifest": fingerprint, "objects": done})
        self._remote.write(MANIFEST, data)
        self._remote.remove(_STARTED)
        self._log.unlink(missing_ok=True)
        self._keep_as_copy(data)

    @property
    def _log(self) -> Path:
        """The fingerprint of the manifest, and the names of the objects that have arrived."""
        return self.folder.with_name(f"{self.folder.name}.uploaded.json")

    def _uploaded(self, manifest: str) -> list[str]:
        """What an interrupted upload of the same corpus has copied."""
        log = read_json(self._log) if self._log.is_file() else {}
        return [str(name) for name in log["objects"]] if log.get("manifest") == manifest else []

    def _put(self, name: str) -> str:
        self._remote.put(self.folder / name, name)
        return name

    def _keep_as_copy(self, manifest: bytes) -> None:
        copy = _copy_of(self._remote.url, manifest)
        if copy.exists():  # the same corpus, prepared again
            shutil.rmtree(self.folder)
            return
        copy.parent.mkdir(parents=True, exist_ok=True)
        self.folder.rename(copy)


def upload_spans(url: str, folder: Path) -> None:
    """Copy the places of names from a copy in the cache to the corpus at a URL."""
    remote = RemoteFolder(url)
    remote.put(folder / SPANS, SPANS)
    write_atomically(folder / _SPANS_KEY, remote.key(SPANS).encode())
