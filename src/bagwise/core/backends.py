"""Who evaluates an objective elsewhere than in compiled code here.

The package fills this in when it is imported (`bagwise.__init__`), since it alone stands above all rooms: a learner
that is asked for a device finds the room of torch here without importing upward.
"""

from collections.abc import Callable
from typing import Any

OBJECTIVES: dict[str, Callable[..., Any]] = {}
"""Library to what makes the objective of `ORedLogisticRegression` in it."""
