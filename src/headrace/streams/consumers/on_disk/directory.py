"""The directory of a consumer: `meta.json` with its configuration, `state` with its position."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field

import msgspec

from headrace.broker.ids import random_id
from headrace.streams import files
from headrace.streams.config import ConsumerConfig
from headrace.streams.consumers.on_disk import state as consumer_state
from headrace.streams.consumers.on_disk.state import ConsumerState
from headrace.streams.errors import StoreError
from headrace.unreadable import UNREADABLE_JSON

STATE = "state"
CONSUMERS = "consumers"


class ConsumerMeta(msgspec.Struct):
    name: str
    created: int
    config: ConsumerConfig


@dataclass
class Recovered:
    """A consumer on disk. `problem` says what is damaged; then there is no state."""

    meta: ConsumerMeta
    state: ConsumerState | None
    problem: str = ""


@dataclass
class StoredConsumers:
    """`damaged` has a line for each one whose configuration is lost, by name."""

    readable: list[Recovered] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)


def consumer_directory(stream_directory: str, name: str) -> str:
    return files.child_directory(os.path.join(stream_directory, CONSUMERS), name)


def save_meta(stream_directory: str, meta: ConsumerMeta) -> bool:
    """Blocks until it is on disk. Raises OSError, for example if the consumer was deleted meanwhile.

    False: it is used from now on, but may be lost in a power failure.
    """
    directory = consumer_directory(stream_directory, meta.name)
    return files.write_checked(os.path.join(directory, files.META), msgspec.json.encode(meta))


def save_new(stream_directory: str, meta: ConsumerMeta, state: ConsumerState) -> None:
    """The state first: an existing consumer always has its start, however early the server is killed."""
    directory = consumer_directory(stream_directory, meta.name)
    files.make_directory(directory)
    consumer_state.write(os.path.join(directory, STATE), state, sync=True)
    save_meta(stream_directory, meta)


def retire(directory: str) -> str:
    """Rename the directory so that recovery deletes it. Does not wait for the disk; `remove` does.

    Raises OSError; then nothing has changed.
    """
    parent, name = os.path.split(directory)
    retired = os.path.join(parent, f"{files.DELETED_PREFIX}{name}-{random_id(8)}")
    with contextlib.suppress(FileNotFoundError):
        os.rename(directory, retired)
    return retired


def remove(retired: str) -> None:
    """After this it is gone even if the server is killed. Blocks."""
    with contextlib.suppress(OSError):
        files.sync_directory(os.path.dirname(retired))
    files.remove_tree(retired)


def load_all(stream_directory: str) -> StoredConsumers:
    """All consumers of a stream. Nothing is deleted.

    Raises OSError if one of them cannot be read, which is not the same as damaged.
    """
    found = StoredConsumers()
    parent = os.path.join(stream_directory, CONSUMERS)
    for name in files.list_directory(parent):
        directory = os.path.join(parent, name)
        try:
            body = files.read_checked(os.path.join(directory, files.META))
            meta = msgspec.json.decode(body, type=ConsumerMeta)
        except FileNotFoundError:
            continue  # the server was killed before this consumer existed
        except (StoreError, *UNREADABLE_JSON) as error:
            found.damaged[name] = f"consumer {name!r} is left alone: {error}"
            continue
        found.readable.append(_load_state(meta, os.path.join(directory, STATE)))
    return found


def _load_state(meta: ConsumerMeta, path: str) -> Recovered:
    """Raises OSError: a state that cannot be read now is not lost, and must not be overwritten."""
    try:
        state = consumer_state.read(path)
        problem = "" if state is not None else "the consumer's state is missing"
    except ValueError as error:
        state, problem = None, str(error)
    return Recovered(meta, state, problem and f"consumer {meta.name!r} starts over: {problem}")
