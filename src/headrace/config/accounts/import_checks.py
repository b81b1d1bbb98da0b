"""Whether the exports and imports of all accounts fit together. Rules and errors are those of nats-server.

Exports are checked before imports, and an import only against those before it: of those that form a cycle
the last one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from headrace.config.identity import (
    AccountOptions,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
)
from headrace.errors import ConfigError
from headrace.subjects import grammar
from headrace.subjects.transform import Transform, TransformError, place_wildcards, with_wildcards

MAX_SEARCH_DEPTH = 1024
CYCLE = "import forms a cycle"
CYCLE_ADVICE = "what it imports comes from itself, perhaps by way of others; remove one import"
INVALID_SUBJECT = "sublist: invalid subject"
TOO_DEEP = "search cycle depth exhausted"

Export = StreamExport | ServiceExport
AnExport = TypeVar("AnExport", StreamExport, ServiceExport)
AnImport = TypeVar("AnImport", StreamImport, ServiceImport)


class _Linked:
    """What of an account has been accepted so far."""

    def __init__(self, options: AccountOptions) -> None:
        self.options = options
        self.name = options.name
        self.streams: dict[str, StreamExport] = {}
        self.services: dict[str, ServiceExport] = {}
        self.stream_imports: list[tuple[_Linked, str, str]] = []  # from whom, its subject, ours
        self.service_imports: list[tuple[_Linked, str, str]] = []


def check_links(accounts: Iterable[AccountOptions], *, has_system_account: bool) -> Iterator[ConfigError]:
    """The errors, each with a hint: nats-server does not say in which account they are."""
    linked = {account.name: _Linked(account) for account in accounts}
    checks = (_check_stream_exports, _check_service_exports, _check_stream_imports, _check_service_imports)
    for check in checks:
        for account in linked.values():
            for error in check(account, linked):
                advice = f": {CYCLE_ADVICE}" if error.endswith(CYCLE) else ""
                yield ConfigError(error, hint=f"in the account {account.name}{advice}")
    if not has_system_account:
        for account in linked.values():
            for export in account.services.values():
                if export.latency:
                    error = f'Error adding service latency sampling for "{export.subject}"'
                    yield ConfigError(
                        f"{error}: system account not setup", hint=f"in the account {account.name}"
                    )


def without_cycles(
    account: AccountOptions, find: Callable[[str], AccountOptions | None]
) -> tuple[AccountOptions, list[str]]:
    """The account without the imports that lead back to it by way of others, and an error for each of them.

    Others are as `find` has them. Accounts of tokens come one at a time, in any order: as in nats-server, the
    import that would close a circle is the one that does not count, until one of its two accounts changes.
    """
    linked = _reachable(account, find)
    importer = linked[account.name]
    errors: list[str] = []

    def accepted(
        imports: Iterable[AnImport], kind: str, link: Callable[[_Linked, _Linked, AnImport], None]
    ) -> Iterator[AnImport]:
        for one in imports:
            source = linked.get(one.account)
            try:
                if source is not None:
                    link(importer, source, one)
                yield one
            except ConfigError as error:
                errors.append(f'Error adding {kind} import "{one.subject}": {error.message}')

    streams = tuple(accepted(account.stream_imports, "stream", _link_stream))
    services = tuple(accepted(account.service_imports, "service", _link_service))
    return msgspec.structs.replace(account, stream_imports=streams, service_imports=services), errors


def _link_stream(importer: _Linked, source: _Linked, one: StreamImport) -> None:
    """Raises ConfigError if it closes a circle."""
    to = local_subject(one)
    for subject in (to, one.subject):
        _search_streams(source, subject, {importer.name})
    importer.stream_imports.append((source, one.subject, with_wildcards(to)[0]))


def _link_service(importer: _Linked, source: _Linked, one: ServiceImport) -> None:
    """Raises ConfigError if it closes a circle."""
    local = _local_service(one)
    _search_services(source, local, {importer.name})
    importer.service_imports.append((source, one.subject, local))


def _reachable(account: AccountOptions, find: Callable[[str], AccountOptions | None]) -> dict[str, _Linked]:
    """The account, without its imports, and those from which it imports, directly or by way of others."""
    linked = {account.name: _Linked(account)}
    waiting = [linked[account.name]]
    while waiting:
        one = waiting.pop()
        one.streams = _by_subject(one.options.stream_exports)
        sources = [stream.account for stream in one.options.stream_imports]
        sources += [service.account for service in one.options.service_imports]
        for source in sources:
            if source not in linked and (options := find(source)) is not None:
                linked[options.name] = _Linked(options)
                waiting.append(linked[options.name])
    for one in linked.values():
        if one.name != account.name:
            one.stream_imports = [
                (linked[stream.account], stream.subject, with_wildcards(local_subject(stream))[0])
                for stream in one.options.stream_imports
                if stream.account in linked
            ]
            one.service_imports = [
                (linked[service.account], service.subject, _local_service(service))
                for service in one.options.service_imports
                if service.account in linked
            ]
    return linked


# -- exports


def _check_stream_exports(account: _Linked, linked: dict[str, _Linked]) -> Iterator[str]:
    for export in account.options.stream_exports:
        yield from _unknown(export, linked, "stream")
        if _has_bad_position(export):
            yield f'Error adding stream export "{export.subject}": {INVALID_SUBJECT}'
        else:
            _add_export(account.streams, export)


def _check_service_exports(account: _Linked, linked: dict[str, _Linked]) -> Iterator[str]:
    for export in account.options.service_exports:
        yield from _unknown(export, linked, "service")
        if _has_bad_position(export):
            yield f'Error adding service export "{export.subject}": {INVALID_SUBJECT}'
            continue
        _add_export(account.services, export)
        if export.latency:
            results = export.latency.subject
            problem = ""
            if not grammar.is_valid_publish_subject(results) or _find(account.services, results):
                problem = "invalid publish subject"
            elif export.response != "singleton":
                problem = "bad service response type"
            if problem:
                where = f'"{export.subject}" on subject "{results}"'
                yield f"Error adding service latency sampling for {where}: {problem}"


def _unknown(export: Export, linked: dict[str, _Linked], kind: str) -> Iterator[str]:
    for name in export.accounts or ():
        if name not in linked:
            yield f'"{name}" account not defined for {kind} export'


def _has_bad_position(export: Export) -> bool:
    position = export.token_position
    tokens = export.subject.split(grammar.SEPARATOR)
    return position != 0 and (not 0 < position <= len(tokens) or tokens[position - 1] != "*")


def _find(exports: dict[str, StreamExport] | dict[str, ServiceExport], subject: str) -> Export | None:
    """The export that has this subject: exactly, or as a part of it."""
    exact = exports.get(subject)
    if exact is not None:
        return exact
    return next((one for pattern, one in exports.items() if grammar.is_subset(subject, pattern)), None)


def _by_subject(exports: Iterable[AnExport]) -> dict[str, AnExport]:
    found: dict[str, AnExport] = {}
    for export in exports:
        _add_export(found, export)
    return found


def _add_export(exports: dict[str, AnExport], export: AnExport) -> None:
    earlier = exports.get(export.subject)
    exports[export.subject] = export if earlier is None else _joined(earlier, export)


def _joined(earlier: AnExport, export: AnExport) -> AnExport:
    """Two exports of one subject are one. If either is private, it is private, for the accounts of both."""
    changes: dict[str, Any] = {"accounts": (*(earlier.accounts or ()), *(export.accounts or ())) or None}
    if export.accounts is None and not export.token_position:
        changes["token_position"] = earlier.token_position
    if isinstance(earlier, ServiceExport) and isinstance(export, ServiceExport):
        changes["response"] = earlier.response if export.response == "singleton" else export.response
        changes["latency"] = export.latency or earlier.latency
        changes["allow_trace"] = export.allow_trace or earlier.allow_trace
    return msgspec.structs.replace(export, **changes)


def find_export(exports: Iterable[ServiceExport], subject: str) -> ServiceExport | None:
    """The export of a service that is imported."""
    found = _find(_by_subject(exports), subject)
    assert found is None or isinstance(found, ServiceExport)
    return found


def is_approved(export: Export | None, subject: str, importer: str) -> bool:
    """Whether an account may import this subject of an export."""
    if export is None:
        return False
    if export.token_position:
        tokens = subject.split(grammar.SEPARATOR)
        is_exact = subject == export.subject
        return not is_exact and tokens[export.token_position - 1] == importer
    return export.accounts is None or importer in export.accounts


# -- imports


def _check_stream_imports(account: _Linked, linked: dict[str, _Linked]) -> Iterator[str]:
    return _check_imports(account, linked, account.options.stream_imports, "stream", _add_stream_import)


def _check_service_imports(account: _Linked, linked: dict[str, _Linked]) -> Iterator[str]:
    return _check_imports(account, linked, account.options.service_imports, "service", _add_service_import)


def _check_imports(
    account: _Linked,
    linked: dict[str, _Linked],
    imports: Iterable[AnImport],
    kind: str,
    add: Callable[[_Linked, _Linked, AnImport], None],
) -> Iterator[str]:
    for one in imports:
        source = linked.get(one.account)
        if source is None:
            yield f'"{one.account}" account not defined for {kind} import'
            continue
        try:
            add(account, source, one)
        except (ConfigError, TransformError) as error:
            yield f'Error adding {kind} import "{one.subject}": {error.message}'


def local_subject(one: StreamImport) -> str:
    """Where the messages of an imported stream are, in the words of the configuration."""
    if one.prefix:
        return one.prefix.removesuffix(".") + "." + one.subject
    return one.to or one.subject


def _add_stream_import(account: _Linked, source: _Linked, one: StreamImport) -> None:
    if not grammar.is_valid_subject(one.subject) or not is_approved(
        _find(source.streams, one.subject), one.subject, account.name
    ):
        raise ConfigError("stream import not authorized")
    if one.prefix and grammar.has_wildcard(one.prefix):
        raise ConfigError("stream import prefix can not contain wildcard tokens")
    to = local_subject(one)
    for subject in (to, one.subject):
        _search_streams(source, subject, {account.name})
    stream_transform(one)
    if any(other is source and subject == one.subject for other, subject, _ in account.stream_imports):
        raise ConfigError("stream import already exists")
    account.stream_imports.append((source, one.subject, with_wildcards(to)[0]))


def stream_transform(one: StreamImport) -> Transform | None:
    """From the subjects of an imported stream to ours; None: they are the same, or there is one of each."""
    to = local_subject(one)
    if not grammar.has_wildcard(one.subject) or to == one.subject:
        return None
    try:
        return Transform(one.subject, place_wildcards(to), is_reversible=True)
    except TransformError as error:
        raise ConfigError(
            f'failed to create mapping transform for stream import subject from "{one.subject}" to "{to}": '
            f"{error.message}"
        ) from None


def _search_streams(account: _Linked, subject: str, visited: set[str]) -> None:
    """Raises ConfigError if this account imports it from one that is visited."""
    _check_depth(visited)
    if not any(grammar.is_subset(subject, exported) for exported in account.streams):
        return
    for source, _, to in account.stream_imports:
        if grammar.overlap(subject, to):
            if source.name in visited:
                raise ConfigError(CYCLE)
            visited.add(account.name)
            _search_streams(source, to if grammar.is_subset(to, subject) else subject, visited)


def _add_service_import(account: _Linked, source: _Linked, one: ServiceImport) -> None:
    if not grammar.is_valid_subject(one.to) or not grammar.is_valid_subject(one.subject):
        raise ConfigError(INVALID_SUBJECT)
    if not is_approved(_find(source.services, one.subject), one.subject, account.name):
        raise ConfigError("service import not authorized")
    local = _local_service(one)
    _search_services(source, local, {account.name})
    service_transform(one)
    for other, subject, to in account.service_imports:
        if other is source and to == one.to:
            raise ConfigError(
                f'duplicate service import subject "{one.to}", previously used in import for account '
                f'"{other.name}", subject "{subject}"'
            )
    account.service_imports.append((source, one.subject, local))


def _local_service(one: ServiceImport) -> str:
    """Where requests to an imported service are sent."""
    return with_wildcards(one.to)[0] if grammar.has_wildcard(one.subject) else one.to


def service_transform(one: ServiceImport) -> Transform | None:
    """From our subjects to those of an imported service; None: they are the same, or there is one of each."""
    if not grammar.has_wildcard(one.subject) or one.to == one.subject:
        return None
    subject = with_wildcards(one.subject)[0]
    try:
        return Transform(subject, place_wildcards(one.to), is_reversible=True).reverse()
    except TransformError as error:
        raise ConfigError(
            f'failed to create mapping transform for service import subject from "{one.to}" to "{subject}": '
            f"{error.message}"
        ) from None


def _search_services(account: _Linked, subject: str, visited: set[str]) -> None:
    """Raises ConfigError if this account passes it on to one that is visited."""
    _check_depth(visited)
    for source, to, local in account.service_imports:
        if grammar.overlap(subject, to):
            if source.name in visited:
                raise ConfigError(CYCLE)
            visited.add(account.name)
            _search_services(source, local if grammar.is_subset(local, subject) else subject, visited)


def _check_depth(visited: set[str]) -> None:
    if len(visited) >= MAX_SEARCH_DEPTH:
        raise ConfigError(TOO_DEEP)
