"""From raw media to bags, with where every instance was: recordings, pictures, texts, series of measurements."""

from bagwise.app.media.audio import AudioSettings, featurize_audio
from bagwise.app.media.image import ImageSettings, featurize_images
from bagwise.app.media.series import featurize_series
from bagwise.app.media.series_file import SeriesSettings
from bagwise.app.media.text import TextSettings, featurize_texts

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
