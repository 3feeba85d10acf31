"""Old place of `bagwise.featurize.stages`, for what still imports it."""

from bagwise.featurize.stages import draw_image_stages, draw_sound_stages

__all__ = ["draw_image_stages", "draw_sound_stages"]
