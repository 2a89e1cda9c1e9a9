"""What a ModernBERT costs as sequences get longer, beside transformers' ModernBertModel with the same weights.

    python -m benchmarks.modernbert

The same number of tokens in sequences of 512 to 8,192: with attention to the whole sequence in every layer the cost of
a token grows with the length; local layers keep it nearly flat. Both sides compute the same hidden states (checked).
"""

import tempfile

import torch
import transformers

from benchmarks.measure import circumstances, in_turn, print_result
from spanlab.encoder import Encoder

LENGTHS = (512, 1024, 2048, 4096, 8192)
TOKENS = 8192
SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1024}


def models() -> tuple[Encoder, transformers.PreTrainedModel]:
    """Our encoder and theirs with the same random weights."""
    theirs = transformers.ModernBertModel(transformers.ModernBertConfig(vocab_size=8192, pad_token_id=0, **SHAPE))
    theirs.set_attn_implementation("sdpa")
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return Encoder.from_pretrained(folder).eval(), theirs.eval()


def main() -> None:
    """Measure and print; a ratio above 1 means that SpanLab is faster."""
    torch.set_num_threads(2)
    ours, theirs = models()
    result: dict[str, float] = {}
    for length in LENGTHS:
        ids = torch.randint(1, 8192, (TOKENS // length, length))
        with torch.inference_mode():
            difference = (ours(ids).hidden - theirs(input_ids=ids).last_hidden_state).abs().max().item()
            assert difference < 1e-3, f"length {length}: the hidden states differ by {difference}"
            seconds = in_turn({"ours": lambda: ours(ids), "theirs": lambda: theirs(input_ids=ids)}, rounds=4)  # noqa: B023
        rate, ratio = TOKENS / seconds["ours"], seconds["theirs"] / seconds["ours"]
        result |= {f"tokens_per_second_{length}": round(rate), f"ratio_{length}": round(ratio, 2)}
        print(f"length {length:5d}: {rate:9,.0f} tokens/s, {ratio:5.2f} times transformers", flush=True)
    result["cost_growth"] = round(result["tokens_per_second_512"] / result["tokens_per_second_8192"], 2)
    print_result({**result, **circumstances()})


if __name__ == "__main__":
    main()
