"""Networks that were trained elsewhere, each run in a process of its own whose memory and time are bounded.

Nothing heavy is imported here or below but by the process itself: it is to start at once, and to be small.
"""

from bagwise.app.networks._network import (
    Network,
    Port,
    content_fingerprint,
    named,
    one_of,
    read_network_file,
)

__all__ = ["Network", "Port", "content_fingerprint", "named", "one_of", "read_network_file"]
