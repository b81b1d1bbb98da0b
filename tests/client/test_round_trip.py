"""Whatever is published comes back equal, whatever it is."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client import Client
from tests.client.streams import Streams, header_array, read

# Letters, and special characters of the protocol that are allowed in a subject or header.
token = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"], exclude_characters=".*>"),
    min_size=1,
    max_size=12,
)
subject = st.lists(token, min_size=1, max_size=4).map(lambda tokens: ".".join(["r", *tokens]))
key = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n: \t", exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
).filter(lambda text: not text.startswith("Nats-"))
value = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20
).map(lambda text: text.strip(" \t"))
headers = st.lists(st.tuples(key, value), max_size=4)
message = st.tuples(subject, st.binary(max_size=300), headers)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(message, min_size=1, max_size=30), batch_rows=st.integers(1, 40))
def test_what_is_published_is_what_is_fetched(
    client: Client,
    streams: Streams,
    messages: list[tuple[str, bytes, list[tuple[str, str]]]],
    batch_rows: int,
) -> None:
    name = streams.create(subjects=["r.>"], storage="memory")
    try:
        publisher = client.publisher(stream=name, max_in_flight=7)
        publisher.publish(
            pa.array([subject for subject, _, _ in messages]),
            pa.array([data for _, data, _ in messages], pa.binary()),
            header_array([headers for _, _, headers in messages]),
        )
        publisher.flush()
        table = read(client, name, batch_rows=batch_rows)
        fetched = [
            (row["subject"], row["data"], [(pair["key"], pair["value"]) for pair in row["headers"]])
            for row in table.to_pylist()
        ]
        assert fetched == messages
    finally:
        streams.delete_all()
