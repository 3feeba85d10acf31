"""Why a request is not answered, in words for the person in front of the page."""

from __future__ import annotations

from bagwise.core.exceptions import InputError


class RequestError(InputError):
    """A request that cannot be answered as it is; `status` is that of HTTP."""

    status = 400


class ForbiddenError(RequestError):
    """A request from where none is taken."""

    status = 403


class MissingError(RequestError):
    """Something that the run does not have."""

    status = 404


class ConflictError(RequestError):
    """Something that cannot be done while something else goes on."""

    status = 409


class TooLargeError(RequestError):
    """More than is read."""

    status = 413


class TooOftenError(RequestError):
    """More requests than are answered."""

    status = 429
