"""scikit-learn's estimators: `SpanLabVectorizer`, texts to vectors, and `SpanLabClassifier`, fine-tuned by `fit`.

    make_pipeline(SpanLabVectorizer(), LogisticRegression()).fit(texts, labels)
    SpanLabClassifier("minilm", epochs=2).fit(texts, labels).predict_proba(texts)

Both follow the rules that `clone`, `Pipeline` and `GridSearchCV` rely on. Their X is a list or an array of texts. A
fitted classifier is a run folder, which `spanlab.load` and `spanlab serve` take as they are; what a pickle of an
estimator holds is its parameters and the name of that folder, never a model.
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from spanlab.errors import InputError, MissingExtraError
from spanlab.inference.load import load
from spanlab.inference.predictor import Predictor
from spanlab.training.config import Device

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError:
    raise MissingExtraError("sklearn", "an estimator of scikit-learn") from None

if TYPE_CHECKING:
    from sklearn.utils import Tags


class _TextEstimator(BaseEstimator):  # type: ignore[misc]
    """What takes texts, and holds a model that is loaded when it is needed."""

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in {"_loaded", "_folder"}}

    def _predictor(self, model: str | Path, device: Device) -> Predictor:
        loaded: tuple[str, Predictor] | None = getattr(self, "_loaded", None)
        if loaded is None or loaded[0] != f"{model} {device}":
            loaded = (f"{model} {device}", load(model, device=device))
            self._loaded = loaded
        return loaded[1]


class SpanLabVectorizer(TransformerMixin, _TextEstimator):  # type: ignore[misc]
    """A unit vector for each text: the dot product of two is their cosine similarity."""

    def __init__(self, model: str | Path = "minilm", *, batch_tokens: int = 16384, device: Device = "auto") -> None:
        """`model`: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id."""
        self.model, self.batch_tokens, self.device = model, batch_tokens, device

    def fit(self, X: Iterable[str], y: object = None) -> Self:
        """Load the model; nothing is learnt from the texts."""
        texts_of(X)
        self.width_ = self._predictor(self.model, self.device).model.shape.width
        return self

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """(texts, width)"""
        check_is_fitted(self)
        return self._predictor(self.model, self.device).encode(texts_of(X), batch_tokens=self.batch_tokens)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """A name for each dimension."""
        check_is_fitted(self)
        return np.array([f"spanlab{index}" for index in range(self.width_)], dtype=object)


class SpanLabClassifier(ClassifierMixin, _TextEstimator):  # type: ignore[misc]
    """A model fine-tuned for classification."""

    def __init__(
        self,
        model: str | Path = "minilm",
        *,
        epochs: float = 3.0,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
        out: str | Path | None = None,
        overwrite: bool = False,
        device: Device = "auto",
    ) -> None:
        """What `fit` does.

        Args:
            model: what to start from: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
            epochs: of training.
            seed: of training.
            settings: further settings, as `spanlab.finetune` takes them: `{"training": {"lr": 3e-5}}`.
            out: the run folder; None: a temporary one, which ends with the estimator.
            overwrite: replace a run in `out`.
            device: the device to train and run on.
        """
        self.model, self.epochs, self.seed, self.settings = model, epochs, seed, settings
        self.out, self.overwrite, self.device = out, overwrite, device

    def fit(self, X: Iterable[str], y: Iterable[Any]) -> Self:
        """Fine-tune on texts and their labels."""
        from spanlab.workflows.finetune import finetune

        texts, labels = texts_of(X), np.asarray(list(y))
        check_classification_targets(labels)
        if len(texts) != len(labels):
            raise InputError(f"there are {len(texts)} texts and {len(labels)} labels", fix="give one for each")
        self.classes_ = np.unique(labels)
        if self.out is None:
            self._folder = tempfile.TemporaryDirectory(prefix="spanlab-")
        self.__dict__.pop("_loaded", None)  # the folder may be the same, and the model another
        settings = dict(self.settings or {})
        training = {"epochs": self.epochs, "device": self.device, **settings.pop("training", {})}
        rows = [{"text": text, "label": str(label)} for text, label in zip(texts, labels.tolist(), strict=True)]
        run = finetune(
            "classification",
            model=self.model,
            train=rows,
            out=self._folder.name if self.out is None else self.out,
            overwrite=self.overwrite or self.out is None,
            training=training,
            **{"seed": self.seed, **settings},
        )
        self.model_folder_ = str(run.model)
        return self

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float64]:
        """(texts, classes) the probability of every class, in the order of `classes_`; of an empty text all equal."""
        check_is_fitted(self)
        results = self._predictor(self.model_folder_, self.device).predict([{"text": text} for text in texts_of(X)])
        order = [str(label) for label in self.classes_.tolist()]
        equal = 1 / len(order)
        return np.array([[result.scores.get(name, equal) for name in order] for result in results]).reshape(
            len(results), len(order)
        )

    def predict(self, X: Iterable[str]) -> NDArray[Any]:
        """(texts,) the class of each."""
        probabilities = self.predict_proba(X)
        chosen: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return chosen


def texts_of(X: Iterable[Any]) -> Sequence[str]:
    """The texts of a list, a column or an array of one dimension."""
    if isinstance(X, str):
        raise InputError("X is a single text", fix="give a list of texts")
    texts = list(X)
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    if wrong is not None:
        raise InputError(f"X holds a {type(wrong).__name__}", fix="give texts, such as one column of a table")
    return texts
