"""`spanlab inspect masks`: what a recipe's masks look like on a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from rich.text import Text

    from spanlab.pretraining.examples import Examples
    from spanlab.report.masks import MaskReport, ShownToken
    from spanlab.report.orders import OrderedBlock, OrderReport
    from spanlab.report.visibility import Visibility, VisibilityReport


_COLOURS = {"special": "dim", "masked": "bold white on blue", "replaced": "bold white on red", "kept": "black on green"}
_BRACKETS = {"masked": "[{}]", "kept": "({})"}
"""How masks are drawn without colours, in a file or a pipe."""


def masks(
    data: Annotated[Path, typer.Option("--data", help="A prepared corpus.")],
    recipe: Annotated[str, typer.Option("--recipe", help="A shipped recipe or a YAML file.")] = "spanbert",
    overrides: Annotated[list[str] | None, typer.Argument(help="key=value, such as masking.ratio=0.3")] = None,
    blocks: Annotated[int, typer.Option(help="How many blocks to draw.", min=1)] = 2,
    epoch: Annotated[int, typer.Option(help="Which epoch's masks.", min=0)] = 0,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page to look at.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Also draw who sees whom in the first block.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False,
) -> None:
    """Blocks with masked, replaced and kept tokens, spans and boundaries, and lengths against the law.

    Of a recipe that permutes (xlnet): the turn of every predicted token, and who sees whom. Of one that predicts what
    comes next (gpt, elmo): who sees whom.

    Example: spanlab inspect masks --data corpora/legal --recipe spanbert masking.ratio=0.2 --html masks.html
    """
    from spanlab.corpus import PreparedCorpus
    from spanlab.pretraining.examples import Examples
    from spanlab.pretraining.recipe import load_recipe
    from spanlab.report.masks import masks_page, report_masks
    from spanlab.report.visibility import report_visibility

    settings = load_recipe(recipe, overrides or [])
    examples = Examples(PreparedCorpus.open(data), settings)
    if svg is not None:
        _write_picture(examples, epoch, svg)
    if settings.corruption is None:
        _show_sight(examples, blocks, epoch, html, as_json=as_json)
        return
    if settings.corruption == "permutation":
        _show_orders(examples, blocks, epoch, html, as_json=as_json)
        return
    report = report_masks(examples, blocks=blocks, epoch=epoch)
    if html is not None:
        html.write_text(masks_page(report), encoding="utf-8")
        note(f"wrote {html}")
    if as_json:
        print_json({**_statistics(report), "seen_share": report_visibility(examples, epoch=epoch).seen_share})
    else:
        _draw(report)


def _write_picture(examples: "Examples", epoch: int, svg: Path) -> None:
    from spanlab.report.visibility import report_visibility, visibility_svg

    svg.write_text(visibility_svg(report_visibility(examples, epoch=epoch)), encoding="utf-8")
    note(f"wrote {svg}")


def _show_sight(examples: "Examples", blocks: int, epoch: int, html: Path | None, *, as_json: bool) -> None:
    """Recipes that neither mask nor permute: the visible tokens."""
    from spanlab.report.visibility import report_visibility, visibility_page

    report = report_visibility(examples, blocks=blocks, epoch=epoch)
    if html is not None:
        html.write_text(visibility_page(report), encoding="utf-8")
        note(f"wrote {html}")
    if as_json:
        print_json(sight_statistics(report))
    else:
        draw_sight(report)


def _show_orders(examples: "Examples", blocks: int, epoch: int, html: Path | None, *, as_json: bool) -> None:
    """Recipes that permute: the order of prediction."""
    from spanlab.report.orders import orders_page, report_orders

    report = report_orders(examples, blocks=blocks, epoch=epoch)
    if html is not None:
        html.write_text(orders_page(report), encoding="utf-8")
        note(f"wrote {html}")
    if as_json:
        print_json(order_statistics(report))
    else:
        draw_orders(report)


def _statistics(report: "MaskReport") -> dict[str, object]:
    return {
        "samples": report.samples,
        "masked_share": report.masked_share,
        "fates": report.fates,
        "runs_per_block": report.spans_per_block,
        "mean_run_tokens": report.mean_span_tokens,
        "drawn": None if report.drawn is None else {"found": report.drawn.found, "law": report.drawn.expected},
        "runs": report.merged.found,
    }


def _draw(report: "MaskReport") -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for block in report.blocks:
        console.print(_text(block, coloured=console.is_terminal))
        console.print()
    rows = [
        ("blocks looked at", f"{report.samples:,}"),
        ("share of text masked", f"{report.masked_share:.2%}"),
        *((f"{name} among them", f"{share:.1%}") for name, share in report.fates.items()),
        ("runs a block", f"{report.spans_per_block:.1f}, of {report.mean_span_tokens:.2f} tokens on average"),
    ]
    if report.drawn is not None:
        shares = report.drawn.found or report.drawn.expected
        for number, expected in enumerate(report.drawn.expected):
            bar = "█" * round(60 * shares[number])
            rows.append((f"length {number + 1}", f"{shares[number]:7.2%} (law {expected:.2%}) {bar}"))
    print_table(rows, title=report.title)


def _text(block: "tuple[ShownToken, ...]", *, coloured: bool) -> "Text":
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


_SHOWN = 48
"""Rows and columns of a mask that fit a terminal."""


def order_statistics(report: "OrderReport") -> dict[str, object]:
    """For JSON."""
    return {
        "samples": report.samples,
        "predicted_share": report.predicted_share,
        "seen_share": report.seen_share,
        "runs": report.runs,
    }


def draw_orders(report: "OrderReport") -> None:
    """Blocks with the turn of every predicted token, their masks, and the statistics."""
    from rich.console import Console

    from spanlab.report.orders import block_title

    console = Console(highlight=False)
    for block in report.blocks:
        console.print(f"{block_title(block)}:")
        console.print(_ordered_text(block, coloured=console.is_terminal))
        console.print(_mask(block))
    rows = [
        ("blocks looked at", f"{report.samples:,}"),
        ("share of tokens predicted", f"{report.predicted_share:.2%}"),
        ("share of its block that a predicted token sees", f"{report.seen_share:.1%}"),
    ]
    for number, share in enumerate(report.runs, start=1):
        rows.append((f"runs of {number}", f"{share:7.2%} {'█' * round(60 * share)}"))
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


def _mask(block: "OrderedBlock") -> "Text":
    """A row for each predicted token in its turn: what it sees (█), what not (·), itself (◆)."""
    from rich.text import Text

    asking = sorted((token.turn, place) for place, token in enumerate(block.tokens) if token.turn is not None)
    more = "" if len(block.tokens) <= _SHOWN else f" (the first {_SHOWN} tokens; --html draws all)"
    lines = [f"who sees whom: a row for each predicted token in its turn, █ seen, · hidden, ◆ itself{more}"]
    for turn, place in asking[:_SHOWN]:
        cells = (
            "◆" if j == place else "█" if seen else "·" for j, seen in enumerate(block.tokens[place].sees[:_SHOWN])
        )
        lines.append(f"{turn:4d} {block.tokens[place].text[:14]:>14} {''.join(cells)}")
    return Text("\n".join(lines) + "\n")


"""Rows and columns of a square that fit a terminal."""
_SIGNS = "·░█▒×◆"
"""By `Cell`."""


def sight_statistics(report: "VisibilityReport") -> dict[str, object]:
    """For JSON."""
    return {"samples": report.samples, "predicted_share": report.predicted_share, "seen_share": report.seen_share}


def draw_sight(report: "VisibilityReport") -> None:
    """The squares of the blocks, and the shares."""
    from rich.console import Console

    console = Console(highlight=False)
    for sight in report.blocks:
        console.print("\n".join(_lines(sight)), markup=False)
        console.print()
    rows = [
        ("blocks looked at", f"{report.samples:,}"),
        ("share of tokens predicted", f"{report.predicted_share:.2%}"),
        ("share of its block that a predicted token sees", f"{report.seen_share:.1%}"),
    ]
    print_table(rows, title=report.title)


def _lines(sight: "Visibility") -> list[str]:
    more = "" if len(sight.tokens) <= _SHOWN else f" (the first {_SHOWN} tokens)"
    behind = ", ▒ by the backward model" if sight.readers > 1 else ""
    cells = sight.cells[:_SHOWN, :_SHOWN].tolist()
    return [
        f"who sees whom: a row for each token, █ seen{behind}, · hidden, ◆ the predicted token{more}",
        *(
            f"{token[:14]:>14} {''.join(_SIGNS[cell] for cell in row)}"
            for token, row in zip(sight.tokens, cells, strict=False)
        ),
    ]
