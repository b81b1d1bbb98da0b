"""Why a connection was not made: one line that says what is wrong, and a hint that says what to do.

Options have other names on the command line and in Spark; a hint has the three of them.
"""

from __future__ import annotations

import socket
import ssl

from headrace.client.addresses import Address
from headrace.client.errors import ConnectionFailed
from headrace.client.frames import ConnectionEnded

EXPIRED = 10
NOT_YET_VALID = 9
WRONG_NAMES = (62, 64)  # of a host, of an IP address

CA_HINT = "give the CA that signed it: --tls-ca FILE, Spark nats.tls.ca, Python Tls(ca=…)"
CERTIFICATE_HINT = (
    "give a certificate and its key: --tls-cert and --tls-key, Spark nats.tls.cert and nats.tls.key,"
    " Python Tls(cert=…, key=…)"
)
NAME_HINT = (
    "use a name of the certificate in the URL, or give it: --tls-server-name, Spark nats.tls.serverName,"
    " Python Tls(server_name=…)"
)
REFUSED_HINT = "it must be valid, and signed by a CA that the server trusts"
FIRST_HINT = "--tls-first, Spark nats.tls.handshakeFirst, Python Tls(handshake_first=True)"
CREDENTIALS_HINT = (
    "give user and password, a token, a .creds file or an nkey, as options; the first two may be in the URL:"
    " nats://user:password@host:port"
)


class UnknownHost(ConnectionFailed):
    """No address is known for the name of a server: a wrong name, or one that comes back with its server."""


class Refused(ConnectionFailed):
    """The server refused us, or we it: trying again would not help."""


def no_tls(address: object) -> Refused:
    return Refused(
        f"the server at {address} has no TLS, which tls:// or a TLS option demands",
        hint="give it a tls {} section, or use nats:// without TLS options",
    )


def no_certificate(address: object) -> Refused:
    return Refused(f"the server at {address} wants a client certificate", hint=CERTIFICATE_HINT)


def closed_after_certificate(address: object) -> Refused:
    """Its alert says so, but gets lost if the server closes the connection before it has read everything."""
    return Refused(
        f"the server at {address} closed the connection: perhaps it does not accept our client certificate",
        hint=REFUSED_HINT,
    )


def explain(error: BaseException, address: Address, *, wants_tls: bool = False) -> BaseException:
    """Why connecting failed, in one line. Returns errors of any other kind as they are."""
    if isinstance(error, ConnectionEnded):
        if isinstance(error.__cause__, ssl.SSLError):
            return explain_tls(error.__cause__, address)
        first = f"if it expects TLS first: {FIRST_HINT}" if wants_tls else "is it the port for clients?"
        return ConnectionFailed(f"the server at {address} closed the connection at once", hint=first)
    if isinstance(error, ssl.SSLError):
        return explain_tls(error, address)
    if isinstance(error, ConnectionRefusedError):
        return ConnectionFailed(
            f"no server listens at {address}", hint="start one with `headrace serve`, or check the address"
        )
    if isinstance(error, ValueError):
        return Refused(f"{address} is not a NATS server", hint="check the address")
    if isinstance(error, TimeoutError):
        return ConnectionFailed(
            f"the server at {address} did not answer in time",
            hint="is it a NATS server, and is it reachable?",
        )
    if isinstance(error, socket.gaierror):
        return UnknownHost(f"the server at {address} cannot be reached: {error.strerror or error}")
    if isinstance(error, OSError):
        return ConnectionFailed(f"the server at {address} cannot be reached: {error.strerror or error}")
    return error


def explain_tls(error: ssl.SSLError, address: object) -> ConnectionFailed:
    """What TLS refused: theirs, or ours."""
    reason = (error.reason or "").upper()
    if isinstance(error, ssl.SSLCertVerificationError):
        return _bad_certificate(error, address)
    if isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError):
        return ConnectionFailed(f"the server at {address} closed the connection during the TLS handshake")
    if "CERTIFICATE_REQUIRED" in reason:
        return no_certificate(address)
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        said = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return Refused(
            f"the server at {address} does not accept our client certificate ({said})",
            hint=REFUSED_HINT,
        )
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return Refused(
            f"the server at {address} does not speak TLS at once",
            hint=f"it may have no TLS, or send INFO first: leave out {FIRST_HINT}",
        )
    return Refused(f"TLS with the server at {address} failed: {error.reason or error}")


def _bad_certificate(error: ssl.SSLCertVerificationError, address: object) -> Refused:
    whose = f"the certificate of the server at {address}"
    if error.verify_code == EXPIRED:
        return Refused(f"{whose} has expired", hint="renew it on the server, and check the clocks")
    if error.verify_code == NOT_YET_VALID:
        return Refused(f"{whose} is not valid yet", hint="check the clocks of both machines")
    if error.verify_code in WRONG_NAMES:
        return Refused(f"{whose} is for another host: {error.verify_message}", hint=NAME_HINT)
    return Refused(f"{whose} cannot be trusted: {error.verify_message}", hint=CA_HINT)


def refusal(payload: bytes, address: Address) -> ConnectionFailed:
    """For an -ERR of the server."""
    text = payload.decode(errors="replace").strip("' ")
    if "authorization" in text.lower() or "authentication" in text.lower():
        return Refused(f"the server at {address} does not accept these credentials", hint=CREDENTIALS_HINT)
    if "secure connection" in text.lower():
        return Refused(f"the server at {address} wants TLS", hint="use tls://")
    return ConnectionFailed(f"the server at {address} says: {text}")
