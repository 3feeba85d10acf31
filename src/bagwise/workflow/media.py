"""Old place of `bagwise.featurize.media`, for what still imports it."""

from bagwise.featurize.media import MEDIA, check_medium, find_files, guess_medium
from bagwise.featurize.medium import Medium

__all__ = ["MEDIA", "Medium", "check_medium", "find_files", "guess_medium"]
