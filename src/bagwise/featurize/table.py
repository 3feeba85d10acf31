"""Bags that come from a table: there are no media behind them to read, draw or hear."""

from bagwise.featurize.medium import Medium
from bagwise.featurize.settings import Settings

TABLE = Medium(name="table", title="Bags of a table, annotated", instances="instances", settings=Settings)
