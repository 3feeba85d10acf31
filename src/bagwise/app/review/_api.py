"""What each address answers: plain functions of a `Review` and the query or the body."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bagwise.app.review._errors import RequestError
from bagwise.app.review.review import MOST_ROWS, Review

LARGEST_PICTURE = 4000  # points that a picture may be asked for
PNG = "image/png"


class Query:
    """The parameters of an address, each read as what it should be; None where one is missing."""

    def __init__(self, values: Mapping[str, str]):
        self._values = values

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and "\0" in value:
            raise RequestError(f"The parameter {name!r} holds a null character.")
        return value

    def number(self, name: str) -> float | None:
        value = self._values.get(name) or None
        try:
            number = None if value is None else float(value)
        except ValueError:
            number = math.nan
        if number is not None and not math.isfinite(number):
            raise RequestError(f"The parameter {name!r} is {str(value)[:40]!r}; expected a number.")
        return number

    def whole(self, name: str, default: int | None = None, least: int = 0, most: int = 2**53) -> Any:
        value = self._values.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 18 and least <= int(value) <= most):
            raise RequestError(
                f"The parameter {name!r} is {value[:40]!r}; expected a whole number from {least} to {most}."
            )
        return int(value)

    def choice(self, name: str, values: Mapping[str, Any]) -> Any:
        value = self._values.get(name) or None
        if value is not None and value not in values:
            raise RequestError(f"The parameter {name!r} is {value[:40]!r}; use {' or '.join(values)}.")
        return None if value is None else values[value]

    def needed(self, read: Callable[..., Any], name: str, *arguments: Any) -> Any:
        """What one of the methods reads, where the parameter must be there."""
        value = read(name, *arguments)
        if value is None:
            raise RequestError(f"The parameter {name!r} is missing or empty.")
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


@dataclass(frozen=True)
class Blob:
    """An answer that is not JSON."""

    media_type: str
    content: bytes


def _instances(review: Review, query: Query) -> dict[str, Any]:
    sample = query.text("sample")
    return review.instances(
        *_page(query),
        order=query.text("order"),
        label=query.text("label"),
        bag=query.text("bag"),
        file=query.text("file"),
        least=query.number("least"),
        most=query.number("most"),
        checked=query.choice("checked", {"yes": True, "no": False}),
        background=query.choice("background", {"yes": True, "no": False}),
        rows=None if sample is None else review.sample_rows(sample),
    )


def _page(query: Query) -> tuple[int, int]:
    return query.whole("limit", 100, 0, MOST_ROWS), query.whole("offset", 0)


def _instance(query: Query) -> tuple[str, int]:
    return query.needed(query.text, "bag"), query.needed(query.whole, "instance")


def _stretch(query: Query) -> tuple[str, float, float]:
    return query.needed(query.text, "file"), query.needed(query.number, "from"), query.needed(query.number, "to")


def _spectrogram(review: Review, query: Query) -> Blob:
    size = query.whole("width", 1000, 1, LARGEST_PICTURE), query.whole("height", 300, 1, LARGEST_PICTURE)
    band = query.number("low"), query.number("high")
    return Blob(PNG, review.media.spectrogram(*_stretch(query), *size, *band))


def _clip(review: Review, query: Query) -> Blob:
    band = query.number("low"), query.number("high")
    return Blob("audio/wav", review.media.clip(*_stretch(query), *band, query.whole("slow", 1)))


def _thumb(review: Review, query: Query) -> Blob:
    places = review.places
    row, size = places.row(*_instance(query)), query.whole("size", 160, 16, 640)
    return Blob(PNG, review.media.thumb(places.files[places.file_of[row]], places.place(row), size))


GET: dict[str, Callable[[Review, Query], Any]] = {
    "/api/run": lambda review, query: review.summary(),
    "/api/instances": _instances,
    "/api/show": lambda review, query: review.show(*_instance(query), query.number("from"), query.number("to")),
    "/api/files": lambda review, query: review.files(query.text("search") or "", *_page(query)),
    "/api/label-issues": lambda review, query: review.label_issues(),
    "/api/novel-groups": lambda review, query: review.novel_groups(),
    "/api/refit": lambda review, query: review.refit_state(),
    "/api/estimate": lambda review, query: review.estimate(query.text("by") or None),
    "/api/undo": lambda review, query: review.would_undo(),
    "/api/history": lambda review, query: review.history(),
    "/media/spectrogram": _spectrogram,
    "/media/clip": _clip,
    "/media/export": lambda review, query: Blob("application/zip", review.zip_export()),
    "/media/thumb": _thumb,
    "/media/picture": lambda review, query: Blob(PNG, review.media.picture(query.needed(query.text, "file"))),
}
POST: dict[str, Callable[[Review, dict[str, Any]], Any]] = {
    "/api/corrections": lambda review, body: review.correct(body.get("corrections", []), body.get("by")),
    "/api/boxes": lambda review, body: review.edit_box(body),
    "/api/undo": lambda review, body: review.undo(),
    "/api/refit": lambda review, body: review.start_refit(),
    "/api/refit/cancel": lambda review, body: review.cancel_refit(),
    "/api/sample": lambda review, body: review.draw_sample(body.get("label"), body.get("n", 100), body.get("seed")),
    "/api/survey": lambda review, body: review.draw_survey(body.get("n", 60), body.get("seed")),
    "/api/export": lambda review, body: review.export(body.get("confirmed_only", False)),
    "/api/by": lambda review, body: review.name_reviewer(body.get("by", "")),
}
