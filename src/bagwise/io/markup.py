"""The words of marked-up texts: what a page of HTML shows, and reStructuredText without its marks.

Both take time in proportion to the text, whatever is in it: nothing is looked at twice where it was not closed. The
parser of HTML in Python's library takes the square of it for what is left open, and differs from version to version;
places in a text count its characters, so they must not.
"""

from __future__ import annotations

import html
import re

# Tokens of HTML (https://html.spec.whatwg.org/#tokenization): a comment, a declaration, a tag. What is not closed
# reaches to the end. Nothing is given back once it was matched (possessive), so failing takes no longer than matching.
_TOKEN = re.compile(
    r"""
    <(?:
        !--(?:-?>|.*?(?:--!?>|\Z))
        |[!?][^>]*+>?+
        |/(?![a-zA-Z])[^>]*+>?+
        |(?P<closes>/?+)(?P<name>[a-zA-Z][^\s/>]*+)
            (?:[\s/]*+ [^\s/>][^\s/>=]*+ (?:\s*+=\s*+ (?:"[^"]*+"?+ | '[^']*+'?+ | [^\s>]*+))?+)*+
            (?P<tail>[\s/]*+) >?+
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_RAW = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style", "title", "textarea")}
_LARGE = re.compile(r"&#(?:[0-9]{100,}+|[xX][0-9a-fA-F]{100,}+);?+")  # Python refuses numbers of thousands of digits
_HIDDEN = frozenset({"script", "style", "template", "noscript", "head", "svg"})
_IN_HEAD = frozenset({"title", "meta", "link", "base", "script", "style", "noscript", "template"})
_INLINE = frozenset(
    {
        "a",
        "abbr",
        "b",
        "bdi",
        "bdo",
        "cite",
        "code",
        "data",
        "dfn",
        "em",
        "font",
        "i",
        "kbd",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "time",
        "u",
        "var",
        "wbr",
    }
)


class _Page:
    """Gathers what a page shows."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._inside: list[str] = []  # hidden elements that are open, each once

    @property
    def is_in_drawing(self) -> bool:
        """Whether other rules hold: a title in SVG is a tag like others."""
        return "svg" in self._inside

    def add(self, text: str) -> None:
        """Text between tags."""
        if text and not self._inside:
            self.pieces.append(html.unescape(_LARGE.sub("\ufffd", text)))

    def open(self, tag: str) -> None:
        if self._inside == ["head"] and tag not in _IN_HEAD:
            self._inside.clear()  # the end of the head may be left out
        if tag in _HIDDEN and tag not in self._inside:
            self._inside.append(tag)
        self.end_block(tag)

    def close(self, tag: str) -> None:
        if tag in self._inside:
            del self._inside[self._inside.index(tag) :]
        self.end_block(tag)

    def end_block(self, tag: str) -> None:
        if tag not in _INLINE and not self._inside:
            self.pieces.append("\n")

    def add_title(self, text: str) -> None:
        """The title is in the head, and the first words of the page."""
        if self._inside in ([], ["head"]):
            inside, self._inside = self._inside, []
            self.add(f"\n{text}\n")
            self._inside = inside


def html_text(page: str) -> str:
    """The words that a page shows, a line a block."""
    shown, at, done = _Page(), page.find("<"), 0
    while at >= 0:
        token = _TOKEN.match(page, at)
        if token is None:  # a plain <
            at = page.find("<", at + 1)
            continue
        shown.add(page[done:at])
        done = token.end()
        tag = (token["name"] or "").lower()
        if token["closes"]:
            shown.close(tag)
        elif tag and token["tail"].endswith("/"):
            shown.end_block(tag)
        elif tag in _RAW and not shown.is_in_drawing:
            found = _RAW[tag].search(page, done)
            content, done = done, len(page) if found is None else found.start()
            if tag == "title":
                shown.add_title(page[content:done])
            else:
                shown.open(tag)
                shown.add(page[content:done])
        elif tag:
            shown.open(tag)
        at = page.find("<", done)
    shown.add(page[done:])
    lines = (re.sub(r"[^\S\n]+", " ", line).strip() for line in "".join(shown.pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _words_of_link(found: re.Match[str]) -> str:
    """The words of a role or a link, without the place that it leads to."""
    return found["words"].rstrip() if found["place"] else found["words"]


_PLACE = r"(?P<words>[^`<]*+)(?P<place><[^`>]*+>)?+`"
_ROLE = r":[\w+-]{1,60}+(?::[\w+-]{1,60}+){0,3}+:"  # bounded, since each colon may begin one
_RST = (
    (re.compile(r"^[ \t]*+([=\-~^\"'`#*+.:_<>])\1{2,}+[ \t=]*+$", re.MULTILINE), ""),  # lines under and over titles
    (re.compile(r"^[ \t]*+\.\. _[^:\n]*+:.*$", re.MULTILINE), ""),  # targets
    (re.compile(r"^[ \t]*+\.\. (?:\|[^|\n]++\| )?[\w:-]+::.*$", re.MULTILINE), ""),  # directives
    (re.compile(r"^[ \t]++:[\w -]++:(?: .*)?$", re.MULTILINE), ""),  # their options
    (re.compile(rf"{_ROLE}`[~!]?+{_PLACE}"), _words_of_link),  # roles
    (re.compile(rf"`{_PLACE}__?"), _words_of_link),  # links
    (re.compile(r"``([^`]++)``"), r"\1"),
)


def rst_text(source: str) -> str:
    """A text in reStructuredText without directives, roles and lines that only mark."""
    for pattern, kept in _RST:
        source = pattern.sub(kept, source)
    return re.sub(r"\n{3,}", "\n\n", source)
