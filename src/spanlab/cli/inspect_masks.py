"""`spanlab inspect masks`: sample blocks of a corpus under a recipe, with what is masked or predicted, and statistics.

A recipe that masks shows its masks, one that permutes (XLNet) the order of prediction, and one that predicts the next
token (GPT, ELMo) which tokens each token sees.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.atomic_io import write_atomically
from spanlab.cli.output import note, note_download, print_json, print_table

if TYPE_CHECKING:
    from rich.text import Text

    from spanlab.pretraining.examples import Examples
    from spanlab.report.masks import MaskReport, ShownToken
    from spanlab.report.orders import OrderedBlock, OrderReport
    from spanlab.report.visibility import Visibility, VisibilityReport


_COLOURS = {"special": "dim", "masked": "bold white on blue", "replaced": "bold white on red", "kept": "black on green"}
_BRACKETS = {"masked": "[{}]", "kept": "({})"}
"""Marks of masked tokens in a file or a pipe, where there are no colours."""
_SHOWN = 48
"""The number of rows and columns of an attention mask that fit a terminal."""
_SIGNS = "·░█▒×◆"
"""One sign for each `Cell`, in its order."""


def masks(
    data: Annotated[str, typer.Option("--data", help="A prepared corpus, folder or URL.", metavar="PATH")],
    recipe: Annotated[str, typer.Option("--recipe", help="A shipped recipe or a YAML file.")] = "spanbert",
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value, such as masking.ratio=0.3")] = None,
    blocks: Annotated[int, typer.Option(help="Number of blocks to show.", min=1)] = 2,
    epoch: Annotated[int, typer.Option(help="The epoch to draw masks for.", min=0)] = 0,
    html: Annotated[Path | None, typer.Option("--html", help="Also write an HTML page.")] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Also write a picture of which tokens see which in the first block.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False,
) -> None:
    """Show blocks with masked, replaced and kept tokens, spans and boundaries, and span lengths against the law.

    For a recipe that permutes (xlnet): the order of prediction, and which tokens see which. For one that predicts the
    next token (gpt, elmo): which tokens see which.

    Example: spanlab inspect masks --data corpora/legal --recipe spanbert masking.ratio=0.2 --html masks.html
    """
    from spanlab.corpus import PreparedCorpus
    from spanlab.pretraining.examples import Examples
    from spanlab.pretraining.recipe import load_recipe
    from spanlab.report.visibility import report_visibility, visibility_svg

    settings = load_recipe(recipe, overrides or [])
    examples = Examples(PreparedCorpus.open(data, note_download), settings)
    if svg is not None:
        write_atomically(svg, visibility_svg(report_visibility(examples, epoch=epoch)).encode())
        note(f"wrote {svg}")
    if settings.corruption is None:
        _show_visibility(examples, blocks, epoch, html, as_json=as_json)
    elif settings.corruption == "permutation":
        _show_orders(examples, blocks, epoch, html, as_json=as_json)
    else:
        _show_masks(examples, blocks, epoch, html, as_json=as_json)


def _show_masks(examples: "Examples", blocks: int, epoch: int, html: Path | None, *, as_json: bool) -> None:
    """Recipes that mask: the masks."""
    from spanlab.report.masks import masks_page, report_masks
    from spanlab.report.visibility import report_visibility

    report = report_masks(examples, blocks=blocks, epoch=epoch)
    if html is not None:
        write_atomically(html, masks_page(report).encode())
        note(f"wrote {html}")
    if as_json:
        seen_share = report_visibility(examples, epoch=epoch).seen_share
        print_json({**_mask_statistics(report), "seen_share": seen_share})
    else:
        _print_masks(report)


def _show_visibility(examples: "Examples", blocks: int, epoch: int, html: Path | None, *, as_json: bool) -> None:
    """Recipes that neither mask nor permute: the visible tokens."""
    from spanlab.report.visibility import report_visibility, visibility_page

    report = report_visibility(examples, blocks=blocks, epoch=epoch)
    if html is not None:
        write_atomically(html, visibility_page(report).encode())
        note(f"wrote {html}")
    if as_json:
        shares = {"predicted_share": report.predicted_share, "seen_share": report.seen_share}
        print_json({"samples": report.samples, **shares})
    else:
        _print_visibility(report)


def _show_orders(examples: "Examples", blocks: int, epoch: int, html: Path | None, *, as_json: bool) -> None:
    """Recipes that permute: the order of prediction."""
    from spanlab.report.orders import orders_page, report_orders

    report = report_orders(examples, blocks=blocks, epoch=epoch)
    if html is not None:
        write_atomically(html, orders_page(report).encode())
        note(f"wrote {html}")
    if as_json:
        shares = {"predicted_share": report.predicted_share, "seen_share": report.seen_share}
        print_json({"samples": report.samples, **shares, "runs": report.runs})
    else:
        _print_orders(report)


def _mask_statistics(report: "MaskReport") -> dict[str, object]:
    return {
        "samples": report.samples,
        "masked_share": report.masked_share,
        "fates": report.fates,
        "runs_per_block": report.spans_per_block,
        "mean_run_tokens": report.mean_span_tokens,
        "drawn": None if report.drawn is None else {"found": report.drawn.found, "law": report.drawn.expected},
        "runs": report.merged.found,
    }


def _print_masks(report: "MaskReport") -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for block in report.blocks:
        console.print(_masked_text(block, coloured=console.is_terminal))
        console.print()
    rows = [
        ("blocks sampled", f"{report.samples:,}"),
        ("share of text masked", f"{report.masked_share:.2%}"),
        *((f"{name} among them", f"{share:.1%}") for name, share in report.fates.items()),
        ("runs per block", f"{report.spans_per_block:.1f}, of {report.mean_span_tokens:.2f} tokens on average"),
    ]
    if report.drawn is not None:
        shares = report.drawn.found or report.drawn.expected
        for length, (share, expected) in enumerate(zip(shares, report.drawn.expected, strict=True), start=1):
            rows.append((f"length {length}", f"{share:7.2%} (law {expected:.2%}) {'█' * round(60 * share)}"))
    print_table(rows, title=report.title)


def _masked_text(block: "tuple[ShownToken, ...]", *, coloured: bool) -> "Text":
    from rich.text import Text

    text = Text()
    for token in block:
        if token.begins_word or token.fate == "special":
            text.append(" ")
        shown = f"{token.text}→{token.seen}" if token.fate == "replaced" else token.text
        shown = shown if coloured else _BRACKETS.get(token.fate, "{}").format(shown)
        style = _COLOURS.get(token.fate, "")
        text.append(shown, style=f"{style} underline" if token.boundary else style)
    return text


def _print_orders(report: "OrderReport") -> None:
    """Blocks with the turn of every predicted token, their attention masks, and the statistics."""
    from rich.console import Console

    from spanlab.report.orders import block_title

    console = Console(highlight=False)
    for block in report.blocks:
        console.print(f"{block_title(block)}:")
        console.print(_ordered_text(block, coloured=console.is_terminal))
        console.print(_attention_mask(block))
    rows = [
        ("blocks sampled", f"{report.samples:,}"),
        ("share of tokens predicted", f"{report.predicted_share:.2%}"),
        ("share of its block that a predicted token sees", f"{report.seen_share:.1%}"),
    ]
    for length, share in enumerate(report.runs, start=1):
        rows.append((f"runs of {length}", f"{share:7.2%} {'█' * round(60 * share)}"))
    print_table(rows, title=report.title)


def _ordered_text(block: "OrderedBlock", *, coloured: bool) -> "Text":
    from rich.text import Text

    text = Text()
    for token in block.tokens:
        if token.begins_word or token.special:
            text.append(" ")
        if token.turn is None:
            text.append(token.text, style="dim" if token.special else "")
        else:
            shown = f"{token.text}:{token.turn}"
            text.append(shown if coloured else f"[{shown}]", style="bold white on blue")
    return text


def _attention_mask(block: "OrderedBlock") -> "Text":
    """A row for each predicted token in the order of prediction: which tokens it sees."""
    from rich.text import Text

    predicted = sorted((token.turn, index) for index, token in enumerate(block.tokens) if token.turn is not None)
    more = "" if len(block.tokens) <= _SHOWN else f" (the first {_SHOWN} tokens; --html draws all)"
    lines = [f"who sees whom, a row for each predicted token in its turn: █ seen, · hidden, ◆ itself{more}"]
    for turn, index in predicted[:_SHOWN]:
        token = block.tokens[index]
        cells = ("◆" if key == index else "█" if seen else "·" for key, seen in enumerate(token.sees[:_SHOWN]))
        lines.append(f"{turn:4d} {token.text[:14]:>14} {''.join(cells)}")
    return Text("\n".join(lines) + "\n")


def _print_visibility(report: "VisibilityReport") -> None:
    """Blocks with which tokens each token sees, and the statistics."""
    from rich.console import Console

    console = Console(highlight=False)
    for block in report.blocks:
        console.print("\n".join(_visibility_lines(block)), markup=False)
        console.print()
    rows = [
        ("blocks sampled", f"{report.samples:,}"),
        ("share of tokens predicted", f"{report.predicted_share:.2%}"),
        ("share of its block that a predicted token sees", f"{report.seen_share:.1%}"),
    ]
    print_table(rows, title=report.title)


def _visibility_lines(block: "Visibility") -> list[str]:
    more = "" if len(block.tokens) <= _SHOWN else f" (the first {_SHOWN} tokens)"
    backward = ", ▒ by the backward model" if block.readers > 1 else ""
    cells = block.cells[:_SHOWN, :_SHOWN].tolist()
    return [
        f"who sees whom, a row for each token: █ seen{backward}, · hidden, ◆ the predicted token{more}",
        *(
            f"{token[:14]:>14} {''.join(_SIGNS[cell] for cell in row)}"
            for token, row in zip(block.tokens, cells, strict=False)
        ),
    ]
