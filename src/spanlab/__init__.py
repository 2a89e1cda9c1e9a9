"""SpanLab pre-trains, fine-tunes, compares and serves SpanBERT and its family.

The names below are the public face of the library. They are imported when first used, so that `import spanlab`
stays quick and loads neither torch nor tokenizers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spanlab.version import __version__

if TYPE_CHECKING:
    from spanlab.corruption import SpanMasking
    from spanlab.encoder import Encoder, EncoderConfig, SpanBoundaryHead

__all__ = ["Encoder", "EncoderConfig", "SpanBoundaryHead", "SpanMasking", "__version__"]

_HOMES = {
    "Encoder": "spanlab.encoder",
    "EncoderConfig": "spanlab.encoder",
    "SpanBoundaryHead": "spanlab.encoder",
    "SpanMasking": "spanlab.corruption",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (any public name)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spanlab' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
