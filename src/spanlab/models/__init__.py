"""What comes in the box: models by name, their files and cards, and where else to get models.

A model of our own is a folder here, with compact weights; another is in a package of an extra. Neither torch nor
another large library is imported, so that any loader, and the help of any command, may ask for a name.
"""

from spanlab.models.box import (
    ELSEWHERE,
    NAMES,
    WHAT_A_MODEL_IS,
    BundledModel,
    bundled_folder,
    folder_of,
    list_models,
)
from spanlab.models.packages import PackagedModel, find_packaged

__all__ = [
    "ELSEWHERE",
    "NAMES",
    "WHAT_A_MODEL_IS",
    "BundledModel",
    "PackagedModel",
    "bundled_folder",
    "find_packaged",
    "folder_of",
    "list_models",
]
