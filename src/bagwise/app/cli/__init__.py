"""The command line: one file a command, each thin: parses, calls public functions, prints."""

from bagwise.app.cli.main import main

__all__ = ["main"]
