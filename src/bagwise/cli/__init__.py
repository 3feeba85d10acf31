"""The command line: one file a command, each thin: parses, calls public functions, prints."""

from bagwise.cli.main import main

__all__ = ["main"]
