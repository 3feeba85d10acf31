"""From raw media to bags, with where every instance was: recordings, pictures, texts, series of measurements."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bagwise.app.media.audio import AudioSettings, featurize_audio
    from bagwise.app.media.image import ImageSettings, featurize_images
    from bagwise.app.media.series import featurize_series
    from bagwise.app.media.series_file import SeriesSettings
    from bagwise.app.media.text import TextSettings, featurize_texts

_ROOMS = {
    "AudioSettings": "audio",
    "ImageSettings": "image",
    "SeriesSettings": "series_file",
    "TextSettings": "text",
    "featurize_audio": "audio",
    "featurize_images": "image",
    "featurize_series": "series",
    "featurize_texts": "text",
}
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


def __getattr__(name: str) -> Any:
    """Imported when asked for: whoever only wants to know which files there are need not load what reads them."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
