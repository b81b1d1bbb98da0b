"""Requests that are broken: the error is nats-server's, and the stream is unharmed.

Bad JSON, wrong types, unknown fields, absurd numbers, names that look like paths, subjects that are not quite
those of the API.
"""

from tests.interop import settings
from tests.interop.jetstream import (
    api,
    consumer_info,
    create,
    expect,
    info,
    publish,
    streams_session,
)
from tests.interop.session import Session, pub, quiet

STREAM = create("S", subjects=["s"])

BODIES: dict[str, bytes] = {
    "empty": b"",
    "blank": b" ",
    "null": b"null",
    "number": b"5",
    "string": b'"S"',
    "array": b"[]",
    "nested_array": b"[[[[]]]]",
    "true": b"true",
    "unfinished_object": b'{"name": "S"',
    "unfinished_string": b'{"name": "S',
    "missing_value": b'{"name": }',
    "missing_colon": b'{"name" "S"}',
    "trailing_comma": b'{"name": "S",}',
    "trailing_text": b'{"name": "S"} x',
    "single_quotes": b"{'name': 'S'}",
    "binary": b"\x00\x01\x02",
    "invalid_utf8": b'{"name": "S", "description": "\xff"}',
    "unknown_field": b'{"name": "S", "subjects": ["s"], "nosuch": 1}',
    "unknown_nested_field": b'{"name": "S", "consumer_limits": {"nosuch": 1}}',
    "wrong_type_string": b'{"name": 5}',
    "wrong_type_number": b'{"name": "S", "max_msgs": "5"}',
    "wrong_type_boolean": b'{"name": "S", "no_ack": "yes"}',
    "wrong_type_list": b'{"name": "S", "subjects": "s"}',
    "wrong_type_in_list": b'{"name": "S", "subjects": [5]}',
    "wrong_type_object": b'{"name": "S", "mirror": "T"}',
    "number_with_fraction": b'{"name": "S", "max_msgs": 1.5}',
    "number_too_big": b'{"name": "S", "max_msgs": 99999999999999999999}',
    "number_with_exponent": b'{"name": "S", "max_msgs": 1e3}',
    "number_for_int32_too_big": b'{"name": "S", "max_msg_size": 4294967296}',
    "biggest_numbers": b'{"name": "S", "subjects": ["s"], "max_msgs": 9223372036854775807, "max_age": 0}',
    "first_seq_of_2_to_the_64": b'{"name": "S", "subjects": ["s"], "first_seq": 18446744073709551615}',
    "first_seq_negative": b'{"name": "S", "subjects": ["s"], "first_seq": -1}',
    "key_in_other_case": b'{"NAME": "S", "Subjects": ["s"]}',
    "key_twice": b'{"name": "T", "name": "S", "subjects": ["s"]}',
    "null_fields": b'{"name": "S", "subjects": null, "mirror": null, "max_msgs": null}',
    "escapes": b'{"name": "\\u0053", "subjects": ["s"]}',
    "no_name": b'{"subjects": ["s"]}',
    "name_empty": b'{"name": "", "subjects": ["s"]}',
    "retention_number": b'{"name": "S", "retention": 1}',
    "age_as_text": b'{"name": "S", "max_age": "1h"}',
}

NAMES: dict[str, str] = {
    "path": "../S",
    "slash": "a/b",
    "backslash": "a\\b",
    "dot": ".",
    "two_dots": "..",
    "blank": "a b",
    "tab": "a\tb",
    "wildcard": "a*",
    "full_wildcard": "a>",
    "nul": "a\0b",
    "long": "n" * 256,
    "unicode": "Straße",
    "dollar": "$S",
    "dash_and_underscore": "a-b_c",
    "newline": "a\nb",
    "percent": "a%2fb",
    "del": "a\x7fb",
}

NAMED_IN_SUBJECTS = {"dollar", "dash_and_underscore", "long", "unicode", "slash", "backslash", "percent"}

CREATE: list[Session] = [
    *(
        streams_session(
            f"broken_create_{name}", api("STREAM.CREATE.S", body), api("STREAM.NAMES"), waits=False
        )
        for name, body in BODIES.items()
    ),
    *(
        streams_session(
            f"broken_stream_name_{name}",
            api("STREAM.CREATE.X", {"name": text, "subjects": ["s"]}),
            *(
                [api(f"STREAM.CREATE.{text}", {"name": text, "subjects": ["s"]})]
                * (name in NAMED_IN_SUBJECTS)
            ),
            api("STREAM.NAMES"),
            waits=False,
        )
        for name, text in NAMES.items()
    ),
    *(
        streams_session(
            f"broken_consumer_name_{name}",
            STREAM,
            api("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": text}}),
            api("CONSUMER.DURABLE.CREATE.S.x", {"stream_name": "S", "config": {"durable_name": text}}),
            *(
                [api(f"CONSUMER.CREATE.S.{text}", {"stream_name": "S", "config": {"name": text}})]
                * (name in NAMED_IN_SUBJECTS)
            ),
            api("CONSUMER.NAMES.S"),
            waits=False,
        )
        for name, text in NAMES.items()
    ),
]

CONSUMER_BODIES: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "array": b"[]",
    "no_config": b'{"stream_name": "S"}',
    "no_stream": b'{"config": {"name": "c"}}',
    "config_null": b'{"stream_name": "S", "config": null}',
    "unknown_field": b'{"stream_name": "S", "config": {"name": "c", "nosuch": 1}}',
    "unknown_outer_field": b'{"stream_name": "S", "config": {"name": "c"}, "nosuch": 1}',
    "wrong_type": b'{"stream_name": "S", "config": {"name": "c", "max_deliver": "many"}}',
    "start_seq_negative": b'{"stream_name": "S", "config": {"name": "c", "opt_start_seq": -1}}',
    "start_time_invalid": b'{"stream_name": "S", "config": {"name": "c", "opt_start_time": "then"}}',
    "rate_negative": b'{"stream_name": "S", "config": {"name": "c", "rate_limit_bps": -1}}',
    "backoff_text": b'{"stream_name": "S", "config": {"name": "c", "backoff": ["1s"]}}',
    "biggest_numbers": b'{"stream_name": "S", "config": {"name": "c", "ack_policy": "explicit",'
    b' "max_deliver": 9223372036854775807, "max_ack_pending": 9223372036854775807,'
    b' "ack_wait": 9223372036854775807, "max_waiting": 9223372036854775807}}',
}

OTHERS: list[Session] = [
    *(
        streams_session(
            f"broken_consumer_{name}",
            STREAM,
            api("CONSUMER.CREATE.S.c", body),
            api("CONSUMER.NAMES.S"),
            waits=False,
        )
        for name, body in CONSUMER_BODIES.items()
    ),
    streams_session(
        "broken_bodies_of_other_requests",
        STREAM,
        publish("s"),
        *(
            api(verb, body)
            for verb in ("STREAM.INFO.S", "STREAM.PURGE.S", "STREAM.MSG.GET.S", "STREAM.MSG.DELETE.S")
            for body in (b"[]", b"nonsense", b'{"nosuch": 1}', b'{"seq": 1.5}', b'{"seq": -1}')
        ),
        info("S"),
    ),
    streams_session(
        "broken_paging",
        STREAM,
        *(
            api(verb, body)
            for verb in ("STREAM.NAMES", "STREAM.LIST", "CONSUMER.NAMES.S", "CONSUMER.LIST.S")
            for body in (
                {"offset": 2**63 - 1},
                {"offset": -(2**63)},
                {"offset": "x"},
                {"limit": 1},
                {"nosuch": 1},
            )
        ),
    ),
    streams_session(
        "broken_subjects",
        STREAM,
        *(
            expect(0, pub(f"$JS.API.{verb}".encode(), b"", b"r"))  # nobody answers
            for verb in (
                "STREAM.INFO",
                "STREAM.INFO.S.T",
                "CONSUMER.INFO.S",
                "STREAM.CREATE",
            )
        ),
        quiet(),
        consumer_info("S", "none"),
    ),
    streams_session(
        "broken_wildcards_in_names",
        STREAM,
        api("STREAM.INFO.*"),
        api("STREAM.DELETE.*"),
        api("STREAM.PURGE.*"),
        api("CONSUMER.INFO.S.*"),
        api("CONSUMER.DELETE.S.*"),
        info("S"),
    ),
    streams_session(
        "broken_lenient_server",
        api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "nosuch": 1}),
        api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"name": "c", "nosuch": 1}}),
        api("STREAM.NAMES", {"nosuch": 1}),
        settings=settings.JETSTREAM_LENIENT,
    ),
    streams_session(
        "broken_deep_json", STREAM, api("STREAM.UPDATE.S", b"[" * 5000), api("STREAM.INFO.S", b'{"a":' * 5000)
    ),
]

SESSIONS: list[Session] = CREATE + OTHERS
