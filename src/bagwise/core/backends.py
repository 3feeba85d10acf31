"""What a room needs of rooms that it may not import.

The package fills this in when it is imported (`bagwise.__init__`), since it alone stands above all rooms: a learner
that is asked for a device finds the room of torch here, and a stack that is given no members finds annotators.
"""

from collections.abc import Callable
from typing import Any

OBJECTIVES: dict[str, Callable[..., Any]] = {}
"""Learner to what makes its objective on a device."""
MEMBERS: dict[str, Callable[[], list[Any]]] = {}
"""Learner to what makes the members that it has where it is given none."""
