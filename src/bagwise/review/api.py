"""What each address answers: plain functions of a `Review`, the query and, where something is said, the body."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bagwise.review.errors import RequestError
from bagwise.review.review import MOST_ROWS, Review
from bagwise.review.snapshot import DRAWN, Choice

LARGEST_PICTURE = 4000  # points that a picture may be asked for
PNG, WAV = "image/png", "audio/wav"


class Query:
    """The parameters of an address, each read as what it should be."""

    def __init__(self, values: Mapping[str, str]):
        self._values = values

    def text(self, name: str) -> str:
        """A text that must be there."""
        value = self._values.get(name)
        if value is None:
            raise RequestError(f"The parameter {name!r} is missing.")
        return _without_null(name, value)

    def maybe(self, name: str) -> str | None:
        value = self._values.get(name)
        return None if value is None else _without_null(name, value)

    def number(self, name: str) -> float | None:
        value = self._values.get(name)
        if value is None or value == "":
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise RequestError(f"The parameter {name!r} is {value[:40]!r}; expected a number.")
        return number

    def given(self, name: str) -> float:
        """A number that must be there."""
        self.text(name)
        number = self.number(name)
        if number is None:
            raise RequestError(f"The parameter {name!r} is empty; expected a number.")
        return number

    def whole(self, name: str, default: int | None, least: int = 0, most: int = 2**53) -> int:
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        text = value or ""
        if not (text.isascii() and text.isdigit() and len(text) < 18 and least <= int(text) <= most):
            raise RequestError(
                f"The parameter {name!r} is {text[:40]!r}; expected a whole number from {least} to {most}."
            )
        return int(text)

    def choice(self, name: str, values: Mapping[str, Any]) -> Any:
        value = self._values.get(name)
        if value is None or value == "":
            return None
        if value not in values:
            raise RequestError(f"The parameter {name!r} is {value[:40]!r}; use {' or '.join(values)}.")
        return values[value]


def _without_null(name: str, value: str) -> str:
    if "\0" in value:
        raise RequestError(f"The parameter {name!r} holds a null character.")
    return value


def parse_body(raw: bytes) -> dict[str, Any]:
    """The object in the body of a request."""
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise RequestError("The request is not JSON; send an object in UTF-8.") from None
    if not isinstance(body, dict):
        raise RequestError(f"The request holds {type(body).__name__}; send an object.")
    return body


def _refuse(text: str) -> None:
    raise ValueError(text)


# ---------------------------------------------------------------------------------------------------------------------
# Asked


def get_run(review: Review, query: Query) -> dict[str, Any]:
    return review.summary()


def get_instances(review: Review, query: Query) -> dict[str, Any]:
    sample = query.maybe("sample")
    choice = Choice(
        order=query.maybe("order") or ("useful" if sample is None else DRAWN),
        label=query.maybe("label"),
        bag=query.maybe("bag"),
        file=query.maybe("file"),
        least=query.number("least"),
        most=query.number("most"),
        checked=query.choice("checked", {"yes": True, "no": False}),
        rows=None if sample is None else review.sample_rows(sample),
    )
    return review.instances(choice, query.whole("limit", 100, 0, MOST_ROWS), query.whole("offset", 0))


def get_show(review: Review, query: Query) -> dict[str, Any]:
    return review.show(query.text("bag"), query.whole("instance", None), query.number("from"), query.number("to"))


def get_files(review: Review, query: Query) -> dict[str, Any]:
    return review.files(query.maybe("search") or "", query.whole("limit", 100, 0, MOST_ROWS), query.whole("offset", 0))


def get_doubts(review: Review, query: Query) -> dict[str, Any]:
    return review.doubts()


def get_refit(review: Review, query: Query) -> dict[str, Any]:
    return review.refit_state()


def get_happened(review: Review, query: Query) -> dict[str, Any]:
    return review.happened()


# ---------------------------------------------------------------------------------------------------------------------
# Said


def post_corrections(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    return review.correct(body.get("corrections", []), body.get("by"))


def post_undo(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    return review.undo()


def post_refit(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    return review.start_refit()


def post_cancel(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    return review.cancel_refit()


def post_sample(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    return review.draw_sample(body.get("label"), body.get("n", 100), body.get("seed"))


def post_export(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    return review.export(body.get("confirmed_only", False))


def post_by(review: Review, body: dict[str, Any]) -> dict[str, Any]:
    return review.name_reviewer(body.get("by", ""))


# ---------------------------------------------------------------------------------------------------------------------
# Seen and heard


@dataclass(frozen=True)
class Made:
    """Bytes of a kind."""

    kind: str
    content: bytes


def get_spectrogram(review: Review, query: Query) -> Made:
    content = review.media.spectrogram(
        query.text("file"), query.given("from"), query.given("to"),
        query.whole("width", 1000, 1, LARGEST_PICTURE), query.whole("height", 300, 1, LARGEST_PICTURE),
        query.number("low"), query.number("high"),
    )  # fmt: skip
    return Made(PNG, content)


def get_clip(review: Review, query: Query) -> Made:
    band = query.number("low"), query.number("high")
    slow = query.whole("slow", 1)
    return Made(WAV, review.media.clip(query.text("file"), query.given("from"), query.given("to"), *band, slow))


def get_thumb(review: Review, query: Query) -> Made:
    places = review.places
    row = places.row(query.text("bag"), query.whole("instance", None))
    file = places.files[places.file_of[row]]
    return Made(PNG, review.media.thumb(file, places.place(row), query.whole("size", 160, 16, 640)))


def get_picture(review: Review, query: Query) -> Made:
    return Made(PNG, review.media.picture(query.text("file")))


GET: dict[str, Callable[[Review, Query], Any]] = {
    "/api/run": get_run,
    "/api/instances": get_instances,
    "/api/show": get_show,
    "/api/files": get_files,
    "/api/doubts": get_doubts,
    "/api/refit": get_refit,
    "/api/happened": get_happened,
    "/media/spectrogram": get_spectrogram,
    "/media/clip": get_clip,
    "/media/thumb": get_thumb,
    "/media/picture": get_picture,
}
POST: dict[str, Callable[[Review, dict[str, Any]], Any]] = {
    "/api/corrections": post_corrections,
    "/api/undo": post_undo,
    "/api/refit": post_refit,
    "/api/refit/cancel": post_cancel,
    "/api/sample": post_sample,
    "/api/export": post_export,
    "/api/by": post_by,
}
