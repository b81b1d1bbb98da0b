"""The same configuration to both servers: the same answer, whether they take it or not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.peers import SECOND, Peers

X = {"name": "X"}


def with_transform(source: str, destination: str) -> dict[str, Any]:
    return {"name": "X", "subject_transforms": [{"src": source, "dest": destination}]}


CONFIGS: list[dict[str, Any]] = [
    {},
    # numbers
    {"max_msgs": -5},
    *({name: -5, "pedantic": True} for name in ("max_msgs", "max_bytes", "max_msg_size", "max_consumers")),
    {"max_msgs_per_subject": -5, "pedantic": True},
    {"max_msgs": 2**63},
    {"max_msg_size": 2**31},
    {"max_bytes": 2**62},
    {"max_bytes": 2**20},
    {"max_bytes": 2**62, "storage": "memory"},
    {"first_seq": 100},
    {"first_seq": 1},
    {"num_replicas": 3},
    {"num_replicas": 6},
    {"num_replicas": -1},
    # ages and windows
    {"max_age": -1},
    {"max_age": 5},
    {"max_age": SECOND},
    {"max_age": SECOND, "pedantic": True},
    {"max_age": SECOND, "duplicate_window": 2 * SECOND},
    {"duplicate_window": -1},
    {"duplicate_window": 5},
    # features that exclude or need each other
    {"deny_purge": True, "allow_rollup_hdrs": True},
    {"allow_msg_counter": True},
    {"allow_msg_counter": True, "discard": "new"},
    {"allow_msg_counter": True, "allow_msg_ttl": True},
    {"allow_msg_counter": True, "allow_msg_schedules": True},
    {"allow_msg_counter": True, "retention": "interest"},
    {"discard_new_per_subject": True},
    {"discard_new_per_subject": True, "discard": "new"},
    {"discard_new_per_subject": True, "discard": "new", "max_msgs_per_subject": 1},
    {"subject_delete_marker_ttl": 5},
    {"subject_delete_marker_ttl": -5},
    {"subject_delete_marker_ttl": SECOND},
    {"subject_delete_marker_ttl": SECOND, "pedantic": True},
    {"subject_delete_marker_ttl": SECOND, "allow_msg_ttl": True, "pedantic": True},
    {"subject_delete_marker_ttl": SECOND, "deny_purge": True},
    {"allow_msg_schedules": True},
    {"allow_msg_schedules": True, "discard": "new"},
    {"allow_msg_schedules": True, "pedantic": True},
    {"persist_mode": "async"},
    {"persist_mode": "async", "storage": "memory"},
    {"persist_mode": "async", "allow_atomic": True},
    {"persist_mode": "default"},
    {"persist_mode": ""},
    {"sealed": True},
    {"mirror_direct": True},
    # mirrors
    {"mirror": X},
    {"mirror": X, "subjects": ["a"]},
    {"mirror": X, "first_seq": 4},
    {"mirror": X, "sources": [{"name": "Y"}]},
    {"mirror": X, "allow_msg_counter": True},
    {"mirror": X, "allow_atomic": True},
    {"mirror": X, "allow_batched": True},
    {"mirror": X, "allow_msg_schedules": True},
    {"mirror": X, "subject_delete_marker_ttl": SECOND},
    {"mirror": {"name": "X", "consumer": {}}},
    {"mirror": {"name": "X", "consumer": {"name": "c", "deliver_subject": "*"}}},
    {"mirror": {"name": "X", "consumer": {"name": "c", "deliver_subject": "d"}, "opt_start_seq": 4}},
    {"mirror": {**with_transform("a", "b"), "filter_subject": "a"}},
    {"mirror": with_transform("a..b", "b")},
    {"mirror": with_transform("a", "b.{{foo(1)}}")},
    {"mirror": with_transform("a", "b.$1")},
    {
        "mirror": {
            "name": "X",
            "subject_transforms": [{"src": "a.*", "dest": "b.$1"}, {"src": "a.b", "dest": "c"}],
        }
    },
    {"mirror": {"name": ""}},
    {"mirror": {"name": "a.b"}},
    {"mirror": {"name": "A"}},
    {"mirror": {"name": "X", "filter_subject": "a..b"}},
    {"mirror": {"name": "X", "opt_start_time": "2024-01-02T03:04:05.100+02:00"}},
    {"mirror": {"name": "X", "external": {"api": "$JS.API"}}},
    {"mirror": {"name": "X", "external": {"api": "$JS.d.API", "deliver": "x.*"}}},
    {"mirror": {"name": "X", "external": {"api": "a.*"}}},
    # sources
    {"sources": [{"name": ""}]},
    {"sources": [X, X]},
    {"sources": [{**with_transform("a", "b"), "filter_subject": "a"}]},
    {"sources": [with_transform("a", "b.")]},
    {
        "sources": [
            {"name": "X", "subject_transforms": [{"src": "a.>", "dest": "b.>"}, {"src": "a.b", "dest": "c"}]}
        ]
    },
    {"sources": [X], "allow_msg_schedules": True},
    {"sources": [{"name": "A"}]},
    {"sources": [{"name": "A"}], "subjects": ["zz"]},
    {"sources": [{"name": "X", "filter_subject": "a..b"}]},
    # subjects
    *({"subjects": [subject]} for subject in ("a..b", "", "a b", ">", "*", "$JS.API.>", "$SYS.>", "$KV.>")),
    {"subjects": ["a", "a"]},
    {"subjects": ["a.*", "a.b"]},
    {"subjects": ["$SYS.ACCOUNT.>"]},
    {"subject_transform": {"src": "a..b", "dest": "x"}},
    {"subject_transform": {"src": "a", "dest": "x.{{wildcard(1)}}"}},
    {"subject_transform": {"src": "*", "dest": "x.{{wildcard(1)}}"}},
    {"subject_transform": {}},
    {"republish": {"dest": "x"}},
    {"republish": {"src": "A", "dest": "A"}},
    {"republish": {"src": "*", "dest": "x.$2"}},
    {"republish": {"dest": "x.>"}},
    {"republish": {"dest": "x.>"}, "pedantic": True},
    {"republish": {}},
    {
        "republish": {"src": ">", "dest": ">"},
        "subjects": ["foo"],
        "subject_transform": {"src": "foo", "dest": "bar"},
    },
    # texts and the rest
    {"placement": {}},
    {"placement": {"cluster": "x"}},
    {"placement": {"preferred": "x"}},
    {"description": "x" * 4097},
    {"metadata": {"a": "x" * 131072}},
    {"metadata": {"a": "b", "_nats.ver": "1"}},
    {"storage": "memory"},
    {"compression": "s2"},
    {"allow_direct": True},
    {"no_ack": True},
    {"consumer_limits": {"max_ack_pending": 5, "inactive_threshold": SECOND}},
    {"allow_batched": True},
    {"allow_atomic": True},
    {"allow_msg_ttl": True},
    {"discard": "OLD"},
    {"retention": "workqueue"},
    {"retention": "interest"},
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config)[1:70])
async def test_a_configuration_is_taken_or_refused_as_by_nats_server(
    peers: Peers, config: dict[str, Any]
) -> None:
    answer = await peers.ask("STREAM.CREATE.A", {"name": "A", **config})
    if "error" not in answer:
        await peers.ask("STREAM.INFO.A")
        assert (await peers.ask("STREAM.CREATE.A", {"name": "A", **config})).get("did_create")


NAMES = ["", "a.b", "a/b", "a\\b", "x" * 255, "x" * 256, "..", ">", "é", "a b"]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:10] or "empty")
async def test_a_name_is_taken_or_refused_as_by_nats_server(peers: Peers, name: str) -> None:
    token = name if name and not set(name) & set(" .>") else "other"
    await peers.ask(f"STREAM.CREATE.{token}", {"name": name})


UPDATES: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    ({}, [{"max_msgs": 5}, {"name": "V"}, {"storage": "memory"}, {"num_replicas": 3}]),
    ({}, [{"retention": "workqueue"}, {"retention": "interest"}, {"retention": "limits"}]),
    ({"deny_delete": True, "deny_purge": True}, [{"deny_delete": False}, {"deny_delete": True}]),
    ({"deny_delete": True}, [{"deny_delete": True, "description": "x"}]),
    ({}, [{"sealed": True}, {"sealed": False}]),
    ({"max_age": SECOND}, [{"sealed": True, "max_age": SECOND}]),
    ({"mirror": X}, [{"mirror": {"name": "P"}}, {}, {"subjects": ["u"]}]),
    ({"allow_msg_ttl": True}, [{}, {"allow_msg_ttl": True, "subject_delete_marker_ttl": SECOND}]),
    ({}, [{"allow_msg_counter": True}]),
    ({"allow_msg_counter": True}, [{}]),
    ({"allow_msg_schedules": True}, [{}, {"allow_msg_schedules": True, "allow_rollup_hdrs": True}]),
    ({"persist_mode": "async"}, [{}]),
    ({}, [{"subjects": ["o.a"]}, {"subjects": ["x", "y"]}, {"max_bytes": 2**62}, {"max_bytes": 100}]),
    ({"max_bytes": 1000}, [{"max_bytes": 2**62}, {"max_bytes": 100}, {"max_bytes": -1}]),
    ({}, [{"discard_new_per_subject": True}, {"first_seq": 5}, {"compression": "s2"}]),
    ({}, [{"metadata": {"a": "b"}}, {"placement": {"tags": ["x"]}}, {"allow_direct": True}]),
    ({}, [{"allow_atomic": True}, {"allow_batched": True}, {"no_ack": True}, {"duplicate_window": SECOND}]),
    ({}, [{"republish": {"dest": "z"}}, {"subject_transform": {"src": "U", "dest": "y"}}]),
    ({}, [{"unknown": 1}, {"pedantic": True}, {"max_msgs": -7, "pedantic": True}]),
]


@pytest.mark.parametrize(("config", "updates"), UPDATES, ids=lambda value: str(value)[1:50])
async def test_an_update_is_taken_or_refused_as_by_nats_server(
    peers: Peers, config: dict[str, Any], updates: list[dict[str, Any]]
) -> None:
    await peers.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.*"], "max_bytes": 2**20})
    await peers.ask("STREAM.CREATE.U", {"name": "U", **config})
    for update in updates:
        await peers.ask("STREAM.UPDATE.U", {"name": "U", **update})
    await peers.ask("STREAM.INFO.U")
    await peers.ask("STREAM.LIST")


async def test_streams_may_not_share_subjects(peers: Peers) -> None:
    await peers.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.*"]})
    for subjects in (["o.x"], ["o.>"], ["o.*", "p"]):
        refused = await peers.ask("STREAM.CREATE.P", {"name": "P", "subjects": subjects})
        assert refused["error"]["err_code"] == 10065
    assert (await peers.ask("STREAM.CREATE.P", {"name": "P", "subjects": ["o.x.y"]}))["did_create"]


async def test_the_same_name_with_another_configuration_is_refused(peers: Peers) -> None:
    await peers.ask("STREAM.CREATE.O", {"name": "O"})
    refused = await peers.ask("STREAM.CREATE.O", {"name": "O", "max_msgs": 5})
    assert refused["error"]["err_code"] == 10058


async def test_the_level_that_a_client_claims_is_not_believed(peers: Peers) -> None:
    created = await peers.ask("STREAM.CREATE.O", {"name": "O", "metadata": {"_nats.req.level": "9"}})
    assert created["config"]["metadata"]["_nats.req.level"] == "0"
