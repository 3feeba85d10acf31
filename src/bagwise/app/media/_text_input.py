"""Texts as networks take them: the tokens of each passage, by the tokenizer that belongs to the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from bagwise.app.media._network_input import MASK, Feed, NetworkInput, agree, chosen_output
from bagwise.app.media.documents import document_text
from bagwise.app.media.files import FileBags
from bagwise.app.media.settings import number
from bagwise.app.networks import Network, named
from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import FormatError, InputError

TOKENIZER = "tokenizer.json"
IDS, KINDS = "input_ids", "token_type_ids"
IS_CUT = "is cut"  # no input of the network: which passages have more tokens than it takes
LONGEST = 256  # tokens, where nothing says another number
MOST_TOKENS = 100_000


@dataclass(frozen=True)
class TextInput(NetworkInput):
    """How passages are given to a network.

    Attributes
    ----------
    tokenizer : str
        Path of the tokenizer's file from the folder of the network; "" for ``tokenizer.json`` there, or in the
        folder above.
    tokens : int
        Most tokens of a passage; what is longer is cut.
    """

    tokenizer: str = ""
    tokens: int = number(0, 0, MOST_TOKENS)

    def completed(self, network: Network) -> Self:
        path = network.path
        ports = {port.name: port for port in network.inputs}
        if IDS not in ports or not set(ports) <= {IDS, MASK, KINDS}:
            raise InputError(
                f"{path}: the network takes {named(network.inputs)}; networks for texts take {IDS!r} and, if at all, "
                f"{MASK!r} and {KINDS!r}. Export it with these."
            )
        if len(ports[IDS].shape) != 2:
            raise InputError(f"{path}: the network takes {ports[IDS]}, which are no tokens (passage x token).")
        tokens = agree("tokens", self.tokens, ports[IDS].shape[1], path)
        tokenizer = self.tokenizer or _find_tokenizer(path)
        file = path.parent / tokenizer
        truncation = _open(read_tokenizer(file), file).truncation
        return replace(
            self,
            tokenizer=tokenizer,
            tokens=tokens or (truncation or {}).get("max_length") or LONGEST,
            output=chosen_output(self.output, network),
        )

    def rows_at_a_time(self, network: Network) -> int:
        ports = {port.name: port for port in network.inputs}
        # without a mask the tokens that passages are filled up with could not be distinguished from words
        return 1 if MASK not in ports and ports[IDS].shape[0] is None else super().rows_at_a_time(network)

    def source(self, file: Path) -> str:
        return document_text(file)

    def cut(self, source: str, place: Mapping[str, Any]) -> str:
        return source[place["start"] : place["end"]]

    def nothing(self) -> str:
        return "nothing"

    def feeds(self, file: Path, found: FileBags, network: Network, problems: list[str]) -> Iterator[Feed]:
        n_cut = 0
        for feed in super().feeds(file, found, network, problems):
            n_cut += int(feed.pop(IS_CUT).sum())
            yield feed
        if n_cut:
            problems.append(
                f"{n_cut} of its passages have more than {self.tokens} tokens, and the network saw the first of them "
                "only; make passages shorter (--media-set window=...)."
            )

    def contents(self, folder: Path) -> list[bytes]:
        return [read_tokenizer(folder / self.tokenizer)]

    def feed(self, cuts: list[str], network: Network) -> Feed:
        """Tokens of some passages, filled up to one length, and which of them were cut (`IS_CUT`)."""
        tokenizer, filling = open_tokenizer(network.path.parent / self.tokenizer, self.tokens)
        coded = tokenizer.encode_batch(cuts)
        ports = {port.name: port for port in network.inputs}
        width = ports[IDS].shape[1] or max(1, *(len(one.ids) for one in coded))
        arrays = {name: np.zeros((len(coded), width), dtype=np.int64) for name in (IDS, MASK, KINDS)}
        arrays[IDS][:] = filling
        for i, one in enumerate(coded):
            k = len(one.ids)
            arrays[IDS][i, :k], arrays[MASK][i, :k], arrays[KINDS][i, :k] = one.ids, one.attention_mask, one.type_ids
        feed = {name: arrays[name].astype(port.dtype) for name, port in ports.items()}
        feed.setdefault(MASK, arrays[MASK])
        return feed | {IS_CUT: np.array([bool(one.overflowing) for one in coded])}


def _find_tokenizer(path: Path) -> str:
    """The tokenizer's file in the folder of the network, or in the folder above, as models are published."""
    for name in (TOKENIZER, f"../{TOKENIZER}"):
        if (path.parent / name).is_file():
            return name
    raise InputError(
        f"{path}: there is no {TOKENIZER} in its folder or in the folder above; put the tokenizer's file of the "
        "network there, or name it ('tokenizer')."
    )


def read_tokenizer(path: Path) -> bytes:
    """The content of a tokenizer's file."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give the tokenizer's file of the network ('tokenizer').")
    check_allocation(path.stat().st_size, f"The tokenizer {path}", "use another network")
    return path.read_bytes()


def open_tokenizer(path: Path, tokens: int) -> tuple[Any, int]:
    """The tokenizer of a file, which cuts after so many tokens and fills nothing up; and what others fill up with."""
    status = path.stat() if path.is_file() else None
    return _prepared(path, tokens, None if status is None else (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=4)
def _prepared(path: Path, tokens: int, status: Any) -> tuple[Any, int]:
    tokenizer = _open(read_tokenizer(path), path)
    filling = (tokenizer.padding or {}).get("pad_id", 0)
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    return tokenizer, filling


def _open(content: bytes, path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(f"Networks for texts need tokenizers, and {error}; pip install 'bagwise[onnx]'.") from error
    try:
        return Tokenizer.from_buffer(content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        text = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: it is no tokenizer's file ({text}); use tokenizer.json of the network.") from error
