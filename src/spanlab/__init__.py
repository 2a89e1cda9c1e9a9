"""SpanLab pre-trains and fine-tunes SpanBERT and its family.

The names below are the public interface. They are imported on first use, so that `import spanlab` is fast and loads
neither torch nor tokenizers.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names
from spanlab.machine import shorten_spinning
from spanlab.version import __version__

if TYPE_CHECKING:
    from spanlab.corruption import SpanMasking
    from spanlab.encoder import Encoder, EncoderConfig, SpanBoundaryHead
    from spanlab.inference.load import load
    from spanlab.models import list_models
    from spanlab.workflows.finetune import finetune
    from spanlab.workflows.pretrain import pretrain

__all__ = [
    "Encoder",
    "EncoderConfig",
    "SpanBoundaryHead",
    "SpanMasking",
    "__version__",
    "finetune",
    "list_models",
    "load",
    "pretrain",
]

_MODULES = {
    "Encoder": "encoder",
    "EncoderConfig": "encoder",
    "SpanBoundaryHead": "encoder",
    "SpanMasking": "corruption",
    "finetune": "workflows.finetune",
    "list_models": "models",
    "load": "inference.load",
    "pretrain": "workflows.pretrain",
}


shorten_spinning()
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
