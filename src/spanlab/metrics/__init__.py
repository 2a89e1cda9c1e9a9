"""Gold and predicted things to numbers: one file a task's scores, by the rules of the field's official scorers.

Every function that scores is pure and returns a dict with the names that `evaluate` prints: percentages from 0 to 100,
correlations from -1 to 1. The names below are imported when first used: `scipy` is loaded only by what needs it.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names

if TYPE_CHECKING:
    from spanlab.metrics.bleu import score_bleu
    from spanlab.metrics.classification import (
        ConfusionMatrix,
        class_table,
        confusion_matrix,
        label_set_table,
        score_classes,
        score_label_sets,
    )
    from spanlab.metrics.confidence import Interval, difference_interval, mean_interval
    from spanlab.metrics.coref import score_clusters
    from spanlab.metrics.entities import entity_table, score_entities, score_tags, tagged_spans
    from spanlab.metrics.gap import score_gap
    from spanlab.metrics.precision_recall import LabelScores
    from spanlab.metrics.relations import (
        EntityRelations,
        relation_label_table,
        relation_table,
        score_given_relations,
        score_joint_relations,
        score_relations,
        score_semeval_2010_task_8,
    )
    from spanlab.metrics.rouge import score_rouge
    from spanlab.metrics.similarity import pearson, score_similarity, spearman
    from spanlab.metrics.squad import (
        AnswerScores,
        NoAnswerThreshold,
        answer_scores,
        best_no_answer_threshold,
        normalise_answer,
        score_answers,
    )

__all__ = [
    "AnswerScores",
    "ConfusionMatrix",
    "EntityRelations",
    "Interval",
    "LabelScores",
    "NoAnswerThreshold",
    "answer_scores",
    "best_no_answer_threshold",
    "class_table",
    "confusion_matrix",
    "difference_interval",
    "entity_table",
    "label_set_table",
    "mean_interval",
    "normalise_answer",
    "pearson",
    "relation_label_table",
    "relation_table",
    "score_answers",
    "score_bleu",
    "score_classes",
    "score_clusters",
    "score_entities",
    "score_gap",
    "score_given_relations",
    "score_joint_relations",
    "score_label_sets",
    "score_relations",
    "score_rouge",
    "score_semeval_2010_task_8",
    "score_similarity",
    "score_tags",
    "spearman",
    "tagged_spans",
]

_HOMES = {
    "AnswerScores": "squad",
    "ConfusionMatrix": "classification",
    "EntityRelations": "relations",
    "Interval": "confidence",
    "LabelScores": "precision_recall",
    "NoAnswerThreshold": "squad",
    "answer_scores": "squad",
    "best_no_answer_threshold": "squad",
    "class_table": "classification",
    "confusion_matrix": "classification",
    "difference_interval": "confidence",
    "entity_table": "entities",
    "label_set_table": "classification",
    "mean_interval": "confidence",
    "normalise_answer": "squad",
    "pearson": "similarity",
    "relation_label_table": "relations",
    "relation_table": "relations",
    "score_answers": "squad",
    "score_bleu": "bleu",
    "score_classes": "classification",
    "score_clusters": "coref",
    "score_entities": "entities",
    "score_gap": "gap",
    "score_given_relations": "relations",
    "score_joint_relations": "relations",
    "score_label_sets": "classification",
    "score_relations": "relations",
    "score_rouge": "rouge",
    "score_semeval_2010_task_8": "relations",
    "score_similarity": "similarity",
    "score_tags": "entities",
    "spearman": "similarity",
    "tagged_spans": "entities",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
