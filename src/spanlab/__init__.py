"""SpanLab pre-trains and fine-tunes SpanBERT and its family.

The names below are the public interface. They are imported on first use, so that `import spanlab` is fast and loads
neither torch nor tokenizers.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names
from spanlab.machine import shorten_spinning
from spanlab.version import __version__

if TYPE_CHECKING:
    from spanlab.compare import compare
    from spanlab.corruption import SpanMasking
    from spanlab.encoder import Encoder, EncoderConfig, SpanBoundaryHead
    from spanlab.inference.fill import Filler, fill
    from spanlab.inference.frame import to_frame
    from spanlab.inference.load import load
    from spanlab.inference.predictor import Predictor
    from spanlab.integrations.pipelines import pipeline
    from spanlab.integrations.sklearn import SpanLabClassifier, SpanLabVectorizer
    from spanlab.models import list_models
    from spanlab.tasks.scoring import score
    from spanlab.text import Tokenizer
    from spanlab.workflows.finetune import finetune
    from spanlab.workflows.prepare import prepare
    from spanlab.workflows.pretrain import pretrain

__all__ = [
    "Encoder",
    "EncoderConfig",
    "Filler",
    "Predictor",
    "SpanBoundaryHead",
    "SpanLabClassifier",
    "SpanLabVectorizer",
    "SpanMasking",
    "Tokenizer",
    "__version__",
    "compare",
    "fill",
    "finetune",
    "list_models",
    "load",
    "pipeline",
    "prepare",
    "pretrain",
    "score",
    "to_frame",
]

_MODULES = {
    "Encoder": "encoder",
    "EncoderConfig": "encoder",
    "Filler": "inference.fill",
    "Predictor": "inference.predictor",
    "SpanBoundaryHead": "encoder",
    "SpanLabClassifier": "integrations.sklearn",
    "SpanLabVectorizer": "integrations.sklearn",
    "SpanMasking": "corruption",
    "Tokenizer": "text",
    "compare": "compare",
    "fill": "inference.fill",
    "finetune": "workflows.finetune",
    "list_models": "models",
    "load": "inference.load",
    "pipeline": "integrations.pipelines",
    "prepare": "workflows.prepare",
    "pretrain": "workflows.pretrain",
    "score": "tasks.scoring",
    "to_frame": "inference.frame",
}


shorten_spinning()
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
