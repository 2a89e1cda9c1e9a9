"""Orders of prediction on a terminal, for `spanlab inspect masks` with a recipe that permutes."""

from typing import TYPE_CHECKING

from spanlab.cli.output import print_table

if TYPE_CHECKING:
    from rich.text import Text

    from spanlab.report.orders import OrderedBlock, OrderReport

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
        console.print(_text(block, coloured=console.is_terminal))
        console.print(_mask(block))
    rows = [
        ("blocks looked at", f"{report.samples:,}"),
        ("share of tokens predicted", f"{report.predicted_share:.2%}"),
        ("share of its block that a predicted token sees", f"{report.seen_share:.1%}"),
    ]
    for number, share in enumerate(report.runs, start=1):
        rows.append((f"runs of {number}", f"{share:7.2%} {'█' * round(60 * share)}"))
    print_table(rows, title=report.title)


def _text(block: "OrderedBlock", *, coloured: bool) -> "Text":
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
