"""All experiments by name."""

from benchmarks.papers import bag_level, beyond, briggs, descriptions, m3ic, networks, pham, zhang
from benchmarks.papers.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    **descriptions.EXPERIMENTS,
    **briggs.EXPERIMENTS,
    **pham.EXPERIMENTS,
    **zhang.EXPERIMENTS,
    **m3ic.EXPERIMENTS,
    **beyond.EXPERIMENTS,
    **networks.EXPERIMENTS,
    **bag_level.EXPERIMENTS,
}
