"""Raw protocol sessions, replayed against headrace and against the real nats-server; any difference is a
failure.

Sessions are data (`sessions_*.py`, one file per topic, in the little language of `session.py`). `replay.py`
plays one against a running server and keeps what every connection received in every step; `wire.py` is one
raw connection; `normalise.py` hides what must differ between two servers. `python -m tests.interop NAME...`
shows both transcripts.
"""
