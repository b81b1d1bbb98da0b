"""Where the console is on, and which browsers may talk to it.

A page of another site can make a browser send requests here, and DNS rebinding can even make it read the
answers: a name of the attacker that suddenly means 127.0.0.1. So

    Host             must be an address, or a name that is known to be ours: rebinding needs a name
    Origin           if there is one, must be this server
    Sec-Fetch-Site   if there is one, must not be another site
    POST             must carry a token that only our own page can read, in a header of its own
"""

from __future__ import annotations

import ipaddress
import socket
from functools import cache
from urllib.parse import urlsplit

from headrace.config.options import Options
from headrace.http.message import Request

OWN_SITES = ("", "same-origin", "none")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def why_off(options: Options) -> str:
    """Why a server with a monitoring port has no console; empty: it has one."""
    if not options.console.enabled:
        return "the configuration says so"
    if not options.auth_required and not is_loopback(options.monitor_host):
        return (
            f"other machines may reach {options.monitor_host}, and the server has no users; "
            "configure users, or let the monitor listen on 127.0.0.1"
        )
    return ""


@cache
def machine_names() -> frozenset[str]:
    return frozenset({socket.gethostname().lower(), "localhost"})


def is_our_host(header: str, options: Options) -> bool:
    """Whether a browser that sends this Host was asked for this server, and not for a name of an attacker."""
    try:
        host = (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        ours = {options.host.lower(), options.http_host.lower(), *map(str.lower, options.console.hosts)} - {
            ""
        }
        return host in machine_names() or host.endswith(".localhost") or host in ours
    return True


def is_from_elsewhere(request: Request) -> bool:
    """Whether a page of another site made the browser ask."""
    if request.header("sec-fetch-site") not in OWN_SITES:
        return True
    origin = request.header("origin")
    if not origin:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return True
    return parts.netloc.lower() != request.header("host").lower()
