"""A model and a tokenizer from elsewhere must agree about capital letters."""

from pathlib import Path

from spanlab.errors import InputError
from spanlab.text.tokenizer import Tokenizer


def check_model_case(model: str | Path, tokenizer: Tokenizer, tokenizer_path: str | Path) -> None:
    """Refuse a tokenizer that lower-cases for a cased model, or keeps capitals for an uncased one; names both.

    The model's own files decide what it was trained with; loading them checks that they agree among themselves.
    """
    own = Tokenizer.load(model)
    if own.lower_cases == tokenizer.lower_cases:
        return
    cased = "is uncased" if own.lower_cases else "is cased"
    does = "lower-cases" if tokenizer.lower_cases else "keeps capitals"
    raise InputError(
        f"the model {model} {cased}, but the tokenizer {tokenizer_path} {does}",
        fix="use the tokenizer in the model's own folder",
    )
