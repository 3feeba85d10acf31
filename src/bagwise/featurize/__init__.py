"""From raw media to bags, with where every instance was: recordings, pictures, texts, series of measurements."""

from bagwise.featurize.audio import AudioSettings, featurize_audio

__all__ = ["AudioSettings", "featurize_audio"]
