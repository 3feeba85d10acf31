"""What the page asks for with boxes: draw, split, merge, move, remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bagwise.app.review._errors import RequestError
from bagwise.app.runs import Run

Key = tuple[str, int]


def edit_box(run: Run, body: Mapping[str, Any], by: str) -> list[Key]:
    """Do what a request says; gives the keys of the instances that it made or changed, the first one first."""
    action = body.get("action")
    if not isinstance(action, str) or action not in _ACTIONS:
        raise RequestError(f'"action" is {str(action)[:40]!r}; use {", ".join(_ACTIONS)}.')
    return _ACTIONS[action](run, body, by)


def _add(run: Run, body: Mapping[str, Any], by: str) -> list[Key]:
    if not isinstance(body.get("file"), str):
        raise RequestError('"file" must be the name of a file of the run.')
    given: dict[str, Any] = {name: body.get(name) for name in ("start", "end", "low", "high", "label")}
    return [run.add_instance(body["file"], **given, by=by)]


def _split(run: Run, body: Mapping[str, Any], by: str) -> list[Key]:
    return list(run.split(_key(body), body.get("at"), by=by))  # type: ignore[arg-type]  # it is checked there


def _merge(run: Run, body: Mapping[str, Any], by: str) -> list[Key]:
    keys = body.get("keys")
    if not isinstance(keys, list):
        raise RequestError('"keys" must be a list of {"bag", "instance"}.')
    return [run.merge([_key(key) for key in keys], label=body.get("label"), by=by)]


def _move(run: Run, body: Mapping[str, Any], by: str) -> list[Key]:
    place = {name: body.get(name) for name in ("start", "end", "low", "high")}
    return [run.move(_key(body), **place, by=by)]


def _remove(run: Run, body: Mapping[str, Any], by: str) -> list[Key]:
    key = _key(body)
    run.remove(key, by=by)
    return [key]


_ACTIONS: dict[str, Callable[[Run, Mapping[str, Any], str], list[Key]]] = {
    "add": _add,
    "split": _split,
    "merge": _merge,
    "move": _move,
    "remove": _remove,
}


def _key(given: Any) -> Key:
    """The key of an instance: {"bag", "instance"}, or these under "key", or the two in a list."""
    given = given.get("key", given) if isinstance(given, Mapping) else given
    bag, instance = (given.get("bag"), given.get("instance")) if isinstance(given, Mapping) else (given, None)
    if isinstance(given, list) and len(given) == 2:
        bag, instance = given
    if not isinstance(bag, str) or isinstance(instance, bool) or not isinstance(instance, int):
        raise RequestError(f'An instance is {{"bag": text, "instance": whole number}}, not {str(given)[:80]!r}.')
    return bag, instance
