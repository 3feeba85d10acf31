"""The README as the package index shows it: links and pictures lead to the repository, since it has no folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/bagwise/bagwise"


def with_absolute_links(text: str, version: str) -> str:
    """The text with each link to a file of the repository pointing at that file of the release."""
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)([^)]+\))", rf"\g<1>{REPOSITORY}/raw/v{version}/\2", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)([^)]+\))", rf"\g<1>{REPOSITORY}/blob/v{version}/\2", text)


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
