"""Two attention kernels on a CPU, by dtype, length and mode: the source of the rule in `encoder/attention_kernels.py`.

    python -m benchmarks.attention [--rounds 4]

4,096 tokens, 12 heads of 64, in sequences of equal length: torch's fused kernel against plain matrix products, forward
alone and forward with backward.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Ratio, circumstances, print_result, rounds_in_turn

TOKENS, HEADS, WIDTH = 4096, 12, 64


def fused(qkv_N: Tensor, length: int) -> Tensor:
    """scaled_dot_product_attention."""
    q, k, v = qkv_N.view(-1, length, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(TOKENS, -1)


def products(qkv_N: Tensor, length: int) -> Tensor:
    """Two matrix products with a softmax between them."""
    q, k, v = qkv_N.view(-1, length, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
    weights = torch.matmul(q * WIDTH**-0.5, k.transpose(-1, -2)).softmax(-1)
    return torch.matmul(weights, v).transpose(1, 2).reshape(TOKENS, -1)


def measure(dtype: torch.dtype, length: int, *, training: bool, rounds: int) -> Ratio:
    """How many times as long the fused kernel takes."""
    qkv_N = torch.randn(TOKENS, 3 * HEADS * WIDTH, dtype=dtype, requires_grad=training)

    def run(way: object) -> None:
        context = way(qkv_N, length)  # type: ignore[operator]
        if training:
            torch.autograd.grad(context.sum(), qkv_N)

    with torch.set_grad_enabled(training):
        seconds = rounds_in_turn({"fused": lambda: run(fused), "products": lambda: run(products)}, rounds)
    variant = f"{'training' if training else 'inference'}, {str(dtype).removeprefix('torch.')}, length {length}"
    what = f"attention of {TOKENS:,} tokens by matrix products"
    return Ratio.of(seconds["products"], seconds["fused"], what=what, variant=variant, peer="torch's fused kernel")


def main() -> None:
    """Measure and print; a ratio below 1 means that the fused kernel is faster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(2)
    ratios = []
    for dtype in (torch.float32, torch.bfloat16):
        for length in (32, 128, 256, 512):
            for training in (False, True):
                ratio = measure(dtype, length, training=training, rounds=rounds)
                ratios.append(ratio)
                print(f"{ratio.variant}: fused / products {ratio.ratio:5.2f}", flush=True)
    print_result(circumstances(), ratios)


if __name__ == "__main__":
    main()
