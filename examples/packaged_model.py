"""The default model of the examples: MiniLM, of the `minilm` extra."""

import sys


def model_of_command_line() -> str:
    """The first argument (a model folder, a name in `spanlab models` or a Hugging Face id), else MiniLM."""
    return sys.argv[1] if len(sys.argv) > 1 else "minilm"
