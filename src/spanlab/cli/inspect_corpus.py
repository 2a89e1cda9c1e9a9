"""`spanlab inspect corpus`: statistics and samples of a prepared corpus, and a check of its files."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.cli.output import note, note_download, print_json, print_table

if TYPE_CHECKING:
    from rich.text import Text

    from spanlab.corpus.blocks import Blocks
    from spanlab.corpus.corpus import PreparedCorpus
    from spanlab.corpus.verify import CorpusStatistics, Lengths

_BAR = 40


def corpus(
    folder: Annotated[str, typer.Argument(help="Folder or URL of a prepared corpus.", metavar="FOLDER")],
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare it with the manifest.")] = False,
    samples: Annotated[int, typer.Option(min=0, help="Blocks to show.")] = 3,
    length: Annotated[int, typer.Option(min=3, help="Length of the blocks shown.")] = 128,
    seed: Annotated[int, typer.Option(help="Chooses the blocks shown.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False,
) -> None:
    """Show a prepared corpus: counts, lengths, vocabulary, and sample blocks with their boundaries.

    Example: spanlab inspect corpus corpora/legal --verify
    """
    from spanlab.corpus.corpus import PreparedCorpus
    from spanlab.corpus.verify import corpus_statistics

    if verify:
        _verify(folder, json)
    opened = PreparedCorpus.open(folder, note_download)
    statistics = corpus_statistics(opened)
    if json:
        print_json(_as_json(folder, statistics, verified=verify))
        return
    _print_statistics(opened, folder, statistics)
    _print_lengths("sentence lengths", statistics.sentence_lengths)
    _print_lengths("document lengths", statistics.document_lengths)
    if samples:
        _print_samples(opened, samples, length, seed)
    if verify:
        note("verified: every file is as it was written")


def _verify(folder: str, json: bool) -> None:
    from spanlab.corpus.verify import find_damage
    from spanlab.errors import InputError

    damage = find_damage(folder)
    if not damage:
        return
    if json:
        print_json({"corpus": folder, "verified": False, "damage": [vars(item) for item in damage]})
    for item in damage[1:]:
        note(f"spanlab: {folder.rstrip('/')}/{item.file}: {item.cause}")
    first = damage[0]
    raise InputError(
        first.cause, path=f"{folder.rstrip('/')}/{first.file}", fix="copy the corpus again, or prepare it again"
    )


def _as_json(folder: str, statistics: "CorpusStatistics", *, verified: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "corpus": folder,
        "verified": True if verified else None,
        **asdict(statistics),
        "unknown_rate": statistics.unknown_rate,
    }


def _print_statistics(opened: "PreparedCorpus", folder: str, statistics: "CorpusStatistics") -> None:
    counts = statistics.counts
    print_table(
        [
            ("corpus", folder),
            *_copy(opened),
            ("tokens", f"{counts.tokens:,} in {statistics.shards:,} shard{'s' * (statistics.shards > 1)}"),
            ("words", f"{counts.words:,} ({statistics.tokens_per_word:.3f} tokens a word)"),
            ("sentences", f"{counts.sentences:,}"),
            (
                "documents",
                f"{counts.documents:,} ({counts.duplicates:,} duplicates and {counts.short:,} short left out)",
            ),
            ("bytes per token", f"{statistics.bytes_per_token:.3f}"),
            ("vocabulary used", f"{statistics.ids_used:,} of {statistics.vocab_size:,}"),
            ("unknown tokens", f"{statistics.unknown:,} ({100 * statistics.unknown_rate:.4f} %)"),
        ]
    )


def _copy(opened: "PreparedCorpus") -> list[tuple[str, str]]:
    """Where the copy of a corpus at a URL is, and how large it is."""
    from spanlab.corpus.object_store import is_url

    if not is_url(opened.source):
        return []
    size = sum(path.stat().st_size for path in opened.folder.rglob("*") if path.is_file())
    return [("copy", f"{opened.folder} ({size / 1e6:,.1f} MB)")]


def _print_lengths(title: str, lengths: "Lengths") -> None:
    largest = max(count for _, _, count in lengths.histogram)
    rows = [
        (f"{low:,} to {high:,}" if high > low else f"{low:,}", f"{'█' * -(-_BAR * count // largest):<{_BAR}} {count:,}")
        for low, high, count in lengths.histogram
    ]
    print_table(rows, title=f"\n{title} in tokens: mean {lengths.mean:.1f}, longest {lengths.longest:,}")


def _print_samples(opened: "PreparedCorpus", samples: int, length: int, seed: int) -> None:
    from rich.console import Console

    from spanlab.corpus.blocks import DocumentBlocks
    from spanlab.corpus.order import SampleOrder

    blocks = DocumentBlocks(opened, length=length)
    indices = SampleOrder(len(blocks), seed).indices(0, 0, min(samples, len(blocks)))
    console = Console(highlight=False)
    console.print("\n[bold]sample blocks[/bold]: [cyan]‖[/cyan] begins a sentence, · joins the tokens of a word")
    for index in indices.tolist():
        console.print(_block_text(opened, blocks, index))


def _block_text(opened: "PreparedCorpus", blocks: "Blocks", index: int) -> "Text":
    from rich.text import Text

    batch = blocks.batch([index])
    text = Text(f"\nblock {index:,}, {int(batch.lengths[0])} tokens\n", style="dim")
    for position, token in enumerate(batch.ids.tolist()):
        if batch.sentence_starts[position]:
            text.append("‖ " if position == 0 else " ‖ ", style="bold cyan")
        elif position:
            text.append(
                " " if batch.word_starts[position] else "·", style="" if batch.word_starts[position] else "yellow"
            )
        text.append(opened.tokenizer.decode([token]).strip().removeprefix("##"), style="not dim")
    return text
