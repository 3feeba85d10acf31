"""From raw media to bags, with where every instance was: recordings, pictures, texts, series of measurements."""

from bagwise.featurize.audio import AudioSettings, featurize_audio
from bagwise.featurize.image import ImageSettings, featurize_images
from bagwise.featurize.series import featurize_series
from bagwise.featurize.series_file import SeriesSettings
from bagwise.featurize.text import TextSettings, featurize_texts

__all__ = [
    "AudioSettings",
    "ImageSettings",
    "SeriesSettings",
    "TextSettings",
    "featurize_audio",
    "featurize_images",
    "featurize_series",
    "featurize_texts",
]
