"""`headrace check credential`: how long a credentials file is valid."""

from __future__ import annotations

import base64
import binascii
import json
import re
import time

import click

from headrace.cli.check.result import Result
from headrace.cli.check.runner import Report, report_options, run_any_check
from headrace.cli.check.thresholds import duration_option
from headrace.cli.human import duration, moment
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS, format_time

_TOKEN = re.compile(r"^-{3,}BEGIN [^-]*JWT-{3,}\s+(\S+)\s+-{3,}END", re.MULTILINE)


@click.command()
@click.option("--credential", required=True, metavar="FILE", help="The credentials file (.creds).")
@duration_option("--validity-warn", None, "Warn if it expires this soon.")
@duration_option("--validity-critical", None, "Critical if it expires this soon.")
@click.option(
    "--require-expiry/--no-require-expiry",
    default=True,
    help="Critical if it never expires. [default: require-expiry]",
)
@report_options
def credential(
    report: Report, credential: str, validity_warn: float, validity_critical: float, require_expiry: bool
) -> int:
    """Check how long a credentials file is valid. Asks no server."""
    result = Result("credential", "Credential")

    def look() -> None:
        expires = _expiry(credential)
        rest = expires - time.time() if expires else 0.0
        result.measure(
            "expiry", rest, "Expiry time in seconds", warn=validity_warn, crit=validity_critical, unit="s"
        )
        if not expires:
            (result.critical if require_expiry else result.ok)("never expires")
        elif rest <= max(validity_critical, 0):
            text = f"expires in {duration(round(rest) * NANOSECONDS)}" if rest > 0 else "is expired"
            result.critical(text)
        elif rest <= validity_warn:
            result.warning(f"expires in {duration(round(rest) * NANOSECONDS)}")
        else:
            result.ok(f"expires at {moment(format_time(expires * NANOSECONDS))}")

    return run_any_check(report, result, look)


def _expiry(path: str) -> int:
    """Seconds since 1970, 0 for never. Raises HeadraceError."""
    try:
        with open(path) as file:
            found = _TOKEN.search(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise HeadraceError(f"credential not accessible: {error}") from None
    if found is None:
        raise HeadraceError(f"invalid credential: {path} has no JWT")
    try:
        claims = found[1].split(".")[1]
        return int(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))).get("exp", 0))
    except (IndexError, ValueError, binascii.Error, AttributeError, TypeError) as error:
        raise HeadraceError(f"invalid credential: {error}") from None
