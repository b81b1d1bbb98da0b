"""/: a page with links to the endpoints."""

from __future__ import annotations

from html import escape

from headrace import __version__
from headrace.config.options import NATS_VERSION
from headrace.http.message import HTML, Answer
from headrace.monitor.endpoint import Context
from headrace.monitor.query import Query

LINKS = {
    "/varz": "General",
    "/jsz": "JetStream",
    "/connz": "Connections",
    "/accountz": "Accounts",
    "/accstatz": "Account Stats",
    "/subsz": "Subscriptions",
    "/routez": "Routes",
    "/leafz": "LeafNodes",
    "/gatewayz": "Gateways",
    "/raftz": "Raft Groups",
    "/healthz": "Health Probe",
    "/metrics": "Metrics",
    "/debug/vars": "Expvar",
}

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Headrace</title>
<style>
body {{ font: 18px system-ui, sans-serif; margin: 2em }}
a {{ display: block; padding: 0.2em; color: #335 }}
code {{ color: #779 }}
</style>
</head>
<body>
<h1>Headrace {version}</h1>
<p>speaks nats-server {nats_version}</p>
{links}
</body>
</html>
"""


def answer_root(context: Context, query: Query) -> Answer:
    context.request_counts["/"] += 1
    # Relative to the last slash of the page's own address, so that it works behind a proxy too.
    base = context.base_path.rpartition("/")[2]
    prefix = f"./{base}" if base else "."
    links = "\n".join(
        f'<a href="{escape(prefix + path)}">{title} <code>{path}</code></a>' for path, title in LINKS.items()
    )
    return Answer([PAGE.format(version=__version__, nats_version=NATS_VERSION, links=links).encode()], HTML)
