"""ELMo's recurrence, clipped and exact, against torch's own LSTM with projections (without clipping) and a plain loop.

    python -m benchmarks.recurrence [--rounds 5] [--threads 2]

One layer, forward and backward over 20 steps, at the shapes of size tiny, small and base.
"""

import argparse
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.measure import Ratio, circumstances, print_result, rounds_in_turn
from spanlab.encoder.elmo.lstm import ProjectedLSTM

STEPS = 20
SHAPES = {"tiny": (64, 512, 64), "small": (64, 2048, 256), "base": (16, 4096, 512)}
"""Sequences, cells, projection."""


def contenders(sequences: int, cells: int, width: int) -> dict[str, Callable[[], object]]:
    """The three implementations on the same input."""
    x_NP = torch.randn(STEPS * sequences, width, requires_grad=True)
    ours = ProjectedLSTM(width, cells, width, clip=3.0)
    theirs = nn.LSTM(width, cells, proj_size=width)

    def bounded() -> None:
        ours(x_NP, ours.initial_state(sequences), [sequences] * STEPS)[0].sum().backward()

    def unbounded() -> None:
        theirs(x_NP.view(STEPS, sequences, width))[0].sum().backward()

    def plain() -> None:
        plain_loop(ours, x_NP, sequences).sum().backward()

    return {"ours": bounded, "torch": unbounded, "plain loop": plain}


def plain_loop(layer: ProjectedLSTM, x_NP: Tensor, sequences: int) -> Tensor:
    """The same numbers step by step, left to autograd."""
    gates_N4C, state = layer.input(x_NP), layer.initial_state(sequences)
    hidden, cell, outs = state.hidden_BP, state.cell_BC, []
    for part in gates_N4C.split(sequences):
        i, f, g, o = (part + hidden @ layer.recurrent.t()).chunk(4, dim=1)
        cell = (torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)).clamp(-3.0, 3.0)
        hidden = ((torch.sigmoid(o) * torch.tanh(cell)) @ layer.projection.t()).clamp(-3.0, 3.0)
        outs.append(hidden)
    return torch.cat(outs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")
    ratios = []
    peers = {"torch": "torch's LSTM with projections, without clipping", "plain loop": "a plain loop"}
    for size, shape in SHAPES.items():
        seconds = rounds_in_turn(contenders(*shape), options.rounds)
        print(f"{size}: " + ", ".join(f"{name} {1000 * min(taken):.1f} ms" for name, taken in seconds.items()))
        ratios += [
            Ratio.of(seconds["ours"], seconds[name], what="ELMo's clipped LSTM, one layer", variant=size, peer=peer)
            for name, peer in peers.items()
        ]
    print_result(circumstances(), ratios)


if __name__ == "__main__":
    main()
