"""The page and its parts, as they are in `page/`: no build step, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from headrace.http.message import Answer, Headers, Request, answer_text

FOLDER = Path(__file__).parent / "page"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFETY: Headers = (
    ("Content-Security-Policy", POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
)


@cache
def load_files() -> dict[str, tuple[bytes, str, str]]:
    """Path in the folder -> content, type and tag. Read once: nothing else can be asked for."""
    files = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in CONTENT_TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            files[path.relative_to(FOLDER).as_posix()] = (content, CONTENT_TYPES[path.suffix], tag)
    return files


def answer_file(request: Request, name: str) -> Answer:
    found = load_files().get(name)
    if found is None:
        return answer_text(404, "404 page not found\n", SAFETY)
    content, content_type, tag = found
    headers = (*SAFETY, ("ETag", tag), ("Cache-Control", "no-cache"))
    if request.header("if-none-match") == tag:
        return Answer([], content_type, 304, headers)
    return Answer([content], content_type, 200, headers)
