"""The web console: one page on the monitoring port that shows a server live and changes what its user may.

console.py          routes of /console, and the checks in front of them
access.py           where the console is on, and which browsers may talk to it
login.py            from credentials to a session, and how often one may try
sessions.py         who is logged in, and until when
viewer.py           what a user sees and may do: accounts, permissions, the read-only role
calls.py            the in-process client that carries out what a user asks for
live.py             server-sent events: a view again and again
history.py          the figures of the last minutes
message_filter.py   conditions on fields of JSON payloads
views/              what the page shows, as JSON: one file per view
acts.py             what the page changes: a table of names and requests
page/               the page itself: HTML, CSS and JavaScript modules, served as they are
"""
