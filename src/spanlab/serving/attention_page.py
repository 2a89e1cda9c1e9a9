"""The attention view of the page as a file of its own, with the weights of all heads in it.

What enters is an `AttentionReport`; what leaves is HTML that loads nothing: the page's modules and style sheet, and the
weights as bytes, 0 to 255, in base64.
"""

import json
import re
from base64 import b64encode
from html import escape
from importlib import resources

import numpy as np

from spanlab.report.attention import AttentionReport

_START = """
const report = JSON.parse(document.getElementById("report").textContent);
const bytes = Uint8Array.from(atob(report.weights), (character) => character.charCodeAt(0));
const count = report.tokens.length;
function show(layer, head, moved) {
  const first = ((layer - 1) * report.heads + head - 1) * count * count;
  const weights = Array.from({ length: count }, (_, row) =>
    Array.from(bytes.subarray(first + row * count, first + (row + 1) * count), (byte) => byte / 255));
  const drawn = drawAttention(report.text, { ...report, layer, head, weights }, show);
  document.getElementById("attention").replaceChildren(drawn);
  if (moved) document.getElementById(`attention-${moved}`).focus();
}
show(report.layer, report.head);
"""


def attention_page(report: AttentionReport, text: str, *, layer: int = 1, head: int = 1) -> str:
    """The view of every head, with one of them chosen; layers and heads count from 1."""
    layers, heads = report.weights_LHTT.shape[:2]
    data = {
        "text": text,
        "tokens": [
            {"token": token, "start": start, "end": end}
            for token, (start, end) in zip(report.tokens, report.spans, strict=True)
        ],
        "layers": layers,
        "heads": heads,
        "layer": layer,
        "head": head,
        "weights": b64encode((report.weights_LHTT * 255).round().astype(np.uint8).tobytes()).decode(),
    }
    page = resources.files("spanlab.serving") / "page"
    style, *modules = ((page / name).read_text(encoding="utf-8") for name in ("style.css", "dom.js", "attention.js"))
    script = "\n".join(re.sub(r"^(import .*;\n|export )", "", module, flags=re.MULTILINE) for module in modules)
    # Inside a script element only "<" could end it.
    encoded = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")
    title = f"Attention: {escape(report.title)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>\n{style}</style></head>\n'
        f'<body><main><h1>{title}</h1><div class="panel" id="attention"></div></main>\n'
        f'<script type="application/json" id="report">{encoded}</script>\n'
        f'<script type="module">\n{script}{_START}</script></body></html>\n'
    )
