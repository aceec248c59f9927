"""Errors, each with its effect on the data.

::

    Error
      AddressError (ValueError)         the text is not an address
      SetupError                        something that the connection needs is missing
      UnreachableError (ConnectionError)    nobody listens at the address
      RefusedError (ConnectionError)    the server refused the connection
      DisconnectedError (ConnectionError)   the connection ended; the next call opens another one
      TimedOutError (TimeoutError)      no answer came within the limit
      DurabilityError                   the pool promises less than the program expects
      PoolError                         the pool exists with other settings
      InvalidError (ValueError)         a key, value or batch is too long
      NoSpaceError                      the pool is full
      BusyError                         no room became free in time; try again
      ForgottenError                    the write is too long ago to be repeated
      MultiPutError                     some pairs of multi_put were not stored
      InterruptedWriteError             the cause of KeyboardInterrupt in the middle of a write
      ClusterError, StoreError          everything else
      ClosedError, UsageError (RuntimeError)    the program uses what it has closed, or from the wrong place
      StructureError                    data structures: HeldError, TenureOverError, GoneError, ...
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, List, Optional, Union

if TYPE_CHECKING:
    from ._native import Token


class Effect(enum.Enum):
    """The effect of a failed operation on the data."""

    NONE = "none"
    """Nothing was done, and nothing will be."""
    DONE = "done"
    """The operation was done; the failure came after it."""
    UNKNOWN = "unknown"
    """The operation may have been done, or may still be done. Read the key to find out, or repeat the write with the token."""


class Error(Exception):
    """The reason why an operation failed."""

    effect: Effect
    """The effect on the data."""
    token: Optional[Token]
    """The name of a retryable write whose outcome is unknown, for the next attempt."""

    def __init__(
        self,
        message: str = "",
        effect: Effect = Effect.NONE,
        token: Optional[Token] = None,
    ) -> None:
        super().__init__(message)
        self.effect = effect
        self.token = token


class AddressError(Error, ValueError):
    """The text is not an address."""


class SetupError(Error):
    """Something that the connection needs is missing or unusable, such as a key file."""


class UnreachableError(Error, ConnectionError):
    """No server accepted the connection."""


class RefusedError(Error, ConnectionError):
    """The server refused the connection, for example because the server has another version, or no place for another client."""


class DisconnectedError(Error, ConnectionError):
    """The connection ended. The next call opens another one."""


class TimedOutError(Error, TimeoutError):
    """No answer came within the limit."""


class DurabilityError(Error):
    """The pool promises less than the program expects."""


class PoolError(Error):
    """The pool exists with a setting other than the one asked for, or would be too small."""


class InvalidError(Error, ValueError):
    """A key is empty, a key, value or batch is too long, or a batch has keys of several shards."""


class NoSpaceError(Error):
    """The pool, its file system or its index is full. Reads and deletes continue."""


class BusyError(Error):
    """No room became free in time, though the pool is not full. Try again."""


class ForgottenError(Error):
    """The write was first sent so long ago that the server has forgotten its outcome."""


class ClusterError(Error):
    """The cluster is not known, or does not serve the key."""


class StoreError(Error):
    """The server or its medium failed in another way."""


class ClosedError(Error, RuntimeError):
    """The client is closed."""


class UsageError(Error, RuntimeError):
    """A call does not fit the state or the thread of its object."""


class InterruptedWriteError(Error):
    """A signal interrupted the wait for the answer to a write. This error is the cause of the exception that the handler of the signal raised."""


class MultiPutError(Error):
    """Some pairs of ``multi_put`` were not stored."""

    outcomes: List[Union[int, Error]]
    """The version of each pair, or the error for which the pair was not stored."""

    def __init__(self, outcomes: List[Union[int, Error]]) -> None:
        errors = [outcome for outcome in outcomes if isinstance(outcome, Error)]
        stored = len(outcomes) - len(errors)
        message = f"{stored} of {len(outcomes)} pairs were stored; the first error: {errors[0]}"
        nothing = stored == 0 and all(error.effect is Effect.NONE for error in errors)
        super().__init__(message, Effect.NONE if nothing else Effect.UNKNOWN)
        self.outcomes = outcomes


class StructureError(Error):
    """An operation on a data structure failed."""


class HeldError(StructureError):
    """Another front-end writes the structure, which the message names: its process and its host. Try again later."""


class TenureOverError(StructureError):
    """The writer was silent for longer than its lease. Open a new writer."""


class GoneError(StructureError, ConnectionError):
    """The back-end is gone. Connect again."""


class NotFoundError(StructureError, LookupError):
    """The structure does not exist."""


class TooOldError(StructureError):
    """The memory of the snapshot is used again. Take another snapshot."""


class OtherTypeError(StructureError, TypeError):
    """The structure is of another type than was asked for."""


class StructureNameError(StructureError, ValueError):
    """The text is not a name of a structure, or another structure has the name."""


class TooLargeError(StructureError, ValueError):
    """The key or the value is longer than the structure takes."""


class NoRoomError(StructureError):
    """The pool of the back-end is full, or the lock domain has its whole share of the pool."""


class ForgottenUpdateError(StructureError):
    """The first attempt at the update is so old that its result is no longer kept."""
