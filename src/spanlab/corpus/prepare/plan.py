"""What to prepare, decided before anything is written: the sources, and the layout of their text.

What the user has not said about the layout is detected from the beginnings of the first sources, and named in the
plan, so that the command line can tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from spanlab.corpus.prepare.byte_readers import LookAhead, open_reader
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.corpus.prepare.documents import documents_of
from spanlab.corpus.prepare.layout import detect_documents, detect_lines
from spanlab.corpus.prepare.segments import segments_of
from spanlab.corpus.prepare.sources import STDIN, Format, Source, find_sources
from spanlab.errors import InputError
from spanlab.text import sentence_spans

_SAMPLED_SOURCES = 8
_SAMPLE_BYTES = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to prepare."""

    names: tuple[str, ...]
    file_format: Format | None
    config: PrepareConfig
    detected: tuple[str, ...]
    """Which parts of the layout (`documents`, `lines`) nobody said and were detected."""
    text_bytes: int | None
    """Bytes to read, where every source tells its size."""
    stdin: LookAhead | None

    def sources(self) -> Iterator[Source]:
        """The sources, in order."""
        return find_sources(self.names, self.file_format)


def plan_preparation(
    names: Sequence[str], config: PrepareConfig, *, file_format: Format | None = None, stdin: LookAhead | None = None
) -> Plan:
    """The plan for what `names` stand for; what `config` leave open about the layout is detected."""
    sentence_spans("", config.language)  # an unknown language is told now, not by a worker
    first: list[Source] = []
    size: int | None = 0
    text_files = 0
    for source in find_sources(names, file_format):
        if len(first) < _SAMPLED_SOURCES and source.size != 0:
            first.append(source)
        text_files += source.format == "txt"
        size = size + (source.size or 0) if size is not None and source.splittable else None
    if not first:
        raise InputError("nothing to read, it is empty", path=" ".join(names) or None)
    detected = [name for name in ("documents", "lines") if getattr(config, name) is None]
    if detected:
        config = _detect(first, config, several_files=text_files > 1, stdin=stdin)
    if not text_files and "documents" in detected:
        detected.remove("documents")  # only .txt files ask for it
    return Plan(
        names=tuple(names),
        file_format=file_format,
        config=config,
        detected=tuple(detected),
        text_bytes=size,
        stdin=stdin,
    )


def _detect(
    sources: Sequence[Source], config: PrepareConfig, *, several_files: bool, stdin: LookAhead | None
) -> PrepareConfig:
    samples = [(source.format, _sample(source, config, stdin)) for source in sources]
    lines = config.lines or detect_lines([text for _, texts in samples for text in texts])
    plain = [text for file_format, texts in samples if file_format == "txt" for text in texts]
    documents = config.documents or detect_documents(plain, lines, several_files=several_files)
    return replace(config, documents=documents, lines=lines)


def _sample(source: Source, config: PrepareConfig, stdin: LookAhead | None) -> list[str]:
    """Text from the beginning of a source: of a .txt as it stands, of the others by document."""
    if source.name == STDIN:
        data = stdin.peek(_SAMPLE_BYTES) if stdin and source.format == "txt" else b""
        return [_whole_lines(data)]
    if source.format == "txt":
        reader = open_reader(source)
        try:
            return [_whole_lines(reader.read(0, _SAMPLE_BYTES))]
        finally:
            reader.close()
    sampling = replace(config, documents="file", errors="replace", segment_bytes=_SAMPLE_BYTES)
    return [text for segment in islice(segments_of(source, sampling), 1) for text in documents_of(segment, sampling)[0]]


def _whole_lines(data: bytes) -> str:
    """The text of a beginning, without the line it breaks off in."""
    text = data.decode("utf-8", "replace")
    return text if len(data) < _SAMPLE_BYTES else text[: text.rfind("\n") + 1] or text
