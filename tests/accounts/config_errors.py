"""Configurations with a mistake between accounts, for both servers."""


def accounts(**entries: str) -> str:
    return "accounts {\n" + "".join(f"  {name} {{ {text} }}\n" for name, text in entries.items()) + "}\n"


def both(exports: str, imports: str) -> str:
    """A exports, B imports."""
    return accounts(A=f"exports: [{exports}]", B=f"imports: [{imports}]")


S, V = "stream", "service"


def ring(kind: str, *names: str, subject: str = "x") -> str:
    """Each imports from the one before it, and the first from the last."""
    before = dict(zip(names, (names[-1], *names[:-1]), strict=True))
    return accounts(
        **{
            name: f'exports: [{{{kind}: "{subject}"}}], '
            f'imports: [{{{kind}: {{account: {before[name]}, subject: "{subject}"}}}}]'
            for name in names
        }
    )


MISTAKES: dict[str, str] = {
    "stream_cycle_of_two": ring(S, "A", "B"),
    "service_cycle_of_two": ring(V, "A", "B"),
    "stream_cycle_of_three": ring(S, "A", "B", "C"),
    "service_cycle_of_three": ring(V, "A", "B", "C"),
    "stream_cycle_of_five": ring(S, "A", "B", "C", "D", "E"),
    "service_cycle_of_five": ring(V, "A", "B", "C", "D", "E"),
    "stream_cycle_by_wildcards": ring(S, "A", "B", subject="x.>"),
    "service_cycle_by_wildcards": ring(V, "A", "B", subject="x.*"),
    "stream_not_exported": both("{stream: x}", "{stream: {account: A, subject: y}}"),
    "stream_wider_than_exported": both('{stream: "x.*"}', '{stream: {account: A, subject: "x.>"}}'),
    "stream_not_allowed": accounts(
        A="exports: [{stream: x, accounts: [C]}]", B="imports: [{stream: {account: A, subject: x}}]", C=""
    ),
    "service_not_exported": both("{stream: x}", "{service: {account: A, subject: x}}"),
    "service_not_allowed": accounts(
        A="exports: [{service: x, accounts: [C]}]", B="imports: [{service: {account: A, subject: x}}]", C=""
    ),
    **{
        f"private_{kind}_also_exported_to_all_{order}": accounts(
            A=f"exports: [{', '.join(exports)}]", B=f"imports: [{{{kind}: {{account: A, subject: x}}}}]", C=""
        )
        for kind in (S, V)
        for order, exports in {
            "later": (f"{{{kind}: x, accounts: [C]}}", f"{{{kind}: x}}"),
            "before": (f"{{{kind}: x}}", f"{{{kind}: x, accounts: [C]}}"),
        }.items()
    },
    "stream_by_token_also_exported_to_all": both(
        '{stream: "x.*", account_token_position: 2}, {stream: "x.*"}', "{stream: {account: A, subject: x.C}}"
    ),
    "stream_of_another_account_by_token": both(
        '{stream: "x.*", account_token_position: 2}', "{stream: {account: A, subject: x.C}}"
    ),
    "service_by_token_as_a_whole": both(
        '{service: "x.*", account_token_position: 2}', '{service: {account: A, subject: "x.*"}}'
    ),
    "token_position_without_wildcard": both("{stream: x.y, account_token_position: 2}", ""),
    "token_position_too_far": both('{service: "x.*", account_token_position: 3}', ""),
    "unknown_account_in_stream_export": both("{stream: x, accounts: [NOPE]}", ""),
    "unknown_account_in_service_export": both("{service: x, accounts: [NOPE]}", ""),
    "unknown_account_in_stream_import": both("", "{stream: {account: NOPE, subject: x}}"),
    "unknown_account_in_service_import": both("", "{service: {account: NOPE, subject: x}}"),
    "stream_twice": both(
        "{stream: x}", "{stream: {account: A, subject: x}}, {stream: {account: A, subject: x}}"
    ),
    "service_twice": both(
        "{service: x}", "{service: {account: A, subject: x}}, {service: {account: A, subject: x}}"
    ),
    "prefix_with_wildcard": both("{stream: x}", '{stream: {account: A, subject: x}, prefix: "*"}'),
    "import_without_subject": both("{stream: x}", "{stream: {account: A}}"),
    "import_without_account": both("{service: x}", "{service: {subject: x}}"),
    "stream_to_leaves_wildcards": both(
        '{stream: "x.*.*"}', '{stream: {account: A, subject: "x.*.*"}, to: "y.$1"}'
    ),
    "stream_to_with_function": both(
        '{stream: "x.*"}', '{stream: {account: A, subject: "x.*"}, to: "y.{{partition(3,1)}}"}'
    ),
    "service_to_leaves_wildcards": both(
        '{service: "x.*.*"}', '{service: {account: A, subject: "x.*.*"}, to: "y.$1"}'
    ),
    "service_to_out_of_range": both(
        '{service: "x.*"}', '{service: {account: A, subject: "x.*"}, to: "y.$2"}'
    ),
    "response_of_stream": both("{stream: x, response_type: stream}", ""),
    "latency_of_stream": both("{stream: x, latency: y}", ""),
    "trace_of_stream": both("{stream: x, allow_trace: true}", ""),
    "unknown_response": both("{service: x, response: nope}", ""),
    "bad_threshold": both("{service: x, threshold: nope}", ""),
    "latency_without_subject": both("{service: x, latency: {sampling: 5}}", ""),
    "latency_too_much": both("{service: x, latency: {sampling: 101, subject: y}}", ""),
    "latency_nothing": both("{service: x, latency: {sampling: 0, subject: y}}", ""),
    "latency_not_a_number": both("{service: x, latency: {sampling: nope, subject: y}}", ""),
    "latency_to_itself": both("{service: x, latency: {subject: x}}", ""),
    "latency_to_wildcard": both('{service: x, latency: {subject: "y.*"}}', ""),
    "latency_of_many": both("{service: x, response: stream, latency: {subject: y}}", ""),
    "stream_and_service": both("{stream: x, service: y}", ""),
    "unknown_field_of_export": both("{stream: x, nope: 1}", ""),
    "unknown_field_of_import": both("{stream: x}", "{stream: {account: A, subject: x}, nope: 1}"),
    "trace_of_service_import": both("{service: x}", "{service: {account: A, subject: x}, allow_trace: true}"),
    "reserved": 'accounts { "$G" { } }\n',
    "duplicate_user": accounts(A="users: [{user: a}]", B="users: [{user: a}]"),
    "duplicate_name": "accounts: [A, A]\n",
    "unknown_field": accounts(A="nope: 1"),
    "unknown_limit": accounts(A="limits: {nope: 1}"),
    "bad_nkey": accounts(A="nkey: nope"),
    "user_and_accounts": "authorization {user: u, password: p}\n" + accounts(A="users: [{user: a}]"),
    "trace_number": accounts(A="msg_trace: 5"),
    "trace_wildcard": accounts(A='msg_trace: "a.*"'),
    "trace_empty": accounts(A='msg_trace: ""'),
    "trace_destination_number": accounts(A="msg_trace: {dest: 5}"),
    "trace_destination_wrong": accounts(A="msg_trace: {dest: a..b}"),
    "trace_sampling_text": accounts(A="msg_trace: {dest: a, sampling: half}"),
    "trace_sampling_switch": accounts(A="msg_trace: {dest: a, sampling: true}"),
    "trace_unknown": accounts(A="msg_trace: {dest: a, other: 1}"),
    "mapping_duplicate": "mappings { x: [{destination: y, weight: 50}, {destination: y, weight: 50}] }\n",
    "mapping_too_much": "mappings { x: [{destination: y, weight: 60}, {destination: z, weight: 50}] }\n",
    "mapping_weight_101": "mappings { x: [{destination: y, weight: 101}] }\n",
    "mapping_weight_negative": "mappings { x: [{destination: y, weight: -1}] }\n",
    "mapping_weight_text": "mappings { x: [{destination: y, weight: half}] }\n",
    "mapping_without_weight": "mappings { x: [{destination: y}] }\n",
    "mapping_unknown_field": "mappings { x: [{destination: y, weight: 1, nope: 2}] }\n",
    "mapping_bad_source": 'mappings { "x..y": z }\n',
    "mapping_bad_destination": 'mappings { x: "y.*" }\n',
    "mapping_out_of_range": 'mappings { "x.*": "y.$2" }\n',
    "mapping_unknown_function": 'mappings { "x.*": "y.{{nope(1)}}" }\n',
    "mapping_full_wildcard_lost": 'mappings { "x.>": y }\n',
    "mapping_of_an_account": accounts(A='mappings: {"x.*": "y.$3"}'),
}
