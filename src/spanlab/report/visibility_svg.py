"""Who sees whom as a picture: an SVG whose rows and columns carry the tokens of a block."""

from html import escape

from spanlab.report.visibility import Cell, SightReport, Visibility

_COLOURS = {
    Cell.HIDDEN: "#eef1f5",
    Cell.SEEN_UNASKED: "#c3d2ea",
    Cell.SEEN: "#2456a6",
    Cell.SEEN_FROM_BEHIND: "#2e7d4f",
    Cell.REPLACED: "#e2a07c",
    Cell.ITSELF: "#d9a400",
}
_NAMES = {
    Cell.HIDDEN: "hidden",
    Cell.SEEN_UNASKED: "seen by a token that is not predicted",
    Cell.SEEN: "seen by a predicted token",
    Cell.SEEN_FROM_BEHIND: "seen by the reader from behind",
    Cell.REPLACED: "something else in its place",
    Cell.ITSELF: "what is predicted",
}
_SIDE = 18
_LETTER = 7.3
"""The width of a letter of the labels, on average."""
_LINE = 20


def sight_page(report: SightReport) -> str:
    """The pictures of all blocks on one self-contained HTML page."""
    title = f"Who sees whom: {escape(report.title)}"
    shares = (
        f"{report.predicted_share:.2%} of the tokens of {report.samples:,} blocks are predicted, "
        f"and {report.seen_share:.1%} of its block is known when one is."
    )
    pictures = "".join(f"<p>{_picture(report.title, sight)}</p>" for sight in report.blocks)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    return (
        f'{head}<body style="font: 16px/1.7 system-ui, sans-serif"><h1>{title}</h1><p>{shares}</p>{pictures}</html>\n'
    )


def sight_svg(report: SightReport) -> str:
    """The first block of the report as one self-contained SVG."""
    return _picture(report.title, report.blocks[0])


def _picture(title: str, sight: Visibility) -> str:
    margin = 14 + _LETTER * max(map(len, sight.tokens))
    side = _SIDE * len(sight.tokens)
    present = [cell for cell in Cell if (sight.cells == cell).any()]
    width = max(margin + side, _LETTER * max(len(_NAMES[cell]) for cell in present) + 30) + 12
    height = 34 + margin + side + 10 + _LINE * len(present)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="who sees whom: {escape(title)}">',
        '<rect width="100%" height="100%" fill="#ffffff"/><g fill="#1c2733">',
        f'<text x="8" y="22" font-size="15" font-weight="600">{escape(title)}</text>',
        *_labels(sight, margin),
        f'</g><g stroke="#ffffff">{"".join(_squares(sight, margin))}</g><g fill="#1c2733">',
        *(_legend(cell, 34 + margin + side + 18 + _LINE * line) for line, cell in enumerate(present)),
        "</g></svg>\n",
    ]
    return "".join(parts)


def _labels(sight: Visibility, margin: float) -> list[str]:
    found = []
    for place, (token, asked) in enumerate(zip(sight.tokens, sight.asked.tolist(), strict=True)):
        weight = ' font-weight="700"' if asked else ""
        middle, top = margin + _SIDE * (place + 0.5), 34 + margin
        found.append(
            f'<text x="{margin - 6:.1f}" y="{top + _SIDE * (place + 0.75):.1f}" text-anchor="end"{weight}>'
            f"{escape(token)}</text>"
            f'<text transform="translate({middle + 4:.1f} {top - 6:.1f}) rotate(-90)">{escape(token)}</text>'
        )
    return found


def _squares(sight: Visibility, margin: float) -> list[str]:
    return [
        f'<rect x="{margin + _SIDE * column:.1f}" y="{34 + margin + _SIDE * row:.1f}" width="{_SIDE}" '
        f'height="{_SIDE}" fill="{_COLOURS[Cell(cell)]}"/>'
        for row, cells in enumerate(sight.cells.tolist())
        for column, cell in enumerate(cells)
    ]


def _legend(cell: Cell, y: float) -> str:
    square = f'<rect x="8" y="{y - 11:.1f}" width="13" height="13" fill="{_COLOURS[cell]}"/>'
    return f'{square}<text x="28" y="{y:.1f}">{_NAMES[cell]}</text>'
