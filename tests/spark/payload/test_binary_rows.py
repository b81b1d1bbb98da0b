"""Avro and Protobuf payloads: what a producer wrote is what a row has."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headrace.spark.payload.avro_rows import NotAvro, avro_decoder
from headrace.spark.payload.protobuf_rows import NotProtobuf, protobuf_decoder
from headrace.spark.payload.protobuf_schema import descriptor_pool, document_of
from tests.spark.payload.descriptors import descriptor_set
from tests.spark.payload.test_schemas import AVRO_SCHEMA

NOON = datetime.datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=datetime.UTC)
AVRO_ORDER: dict[str, Any] = {
    "id": 2**63 - 1,
    "n": None,
    "price": Decimal("12345678.90"),
    "at": NOON,
    "day": datetime.date(2999, 12, 31),
    "time": datetime.time(10, 30, 0, 5000),
    "uid": uuid.UUID(int=7),
    "kind": "OLD",
    "hash": b"\0\x01\x02\xff",
    "again": b"abcd",
    "tags": ["a", None],
    "counts": {"x": -(2**63)},
    "who": {"f": 1.5},
    "ok": True,
    "d": 1e300,
}


def avro_bytes(value: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(json.dumps(AVRO_SCHEMA))), value)
    return target.getvalue()


def test_an_avro_datum_is_decoded_exactly() -> None:
    decode = avro_decoder(json.dumps(AVRO_SCHEMA), confluent=False)
    expected = {**AVRO_ORDER, "time": "10:30:00.005000", "uid": str(uuid.UUID(int=7))}
    assert decode(avro_bytes(AVRO_ORDER)) == expected


@pytest.mark.parametrize("cut", [0, 1, 5, 20, -1])
def test_a_torn_avro_datum_is_refused(cut: int) -> None:
    decode = avro_decoder(json.dumps(AVRO_SCHEMA), confluent=False)
    with pytest.raises(NotAvro, match="not Avro of this schema"):
        decode(avro_bytes(AVRO_ORDER)[:cut])


def test_bytes_after_an_avro_datum_are_refused() -> None:
    decode = avro_decoder(json.dumps(AVRO_SCHEMA), confluent=False)
    with pytest.raises(NotAvro, match="2 bytes are left over"):
        decode(avro_bytes(AVRO_ORDER) + b"ab")


def test_confluents_header_is_required_if_it_was_promised() -> None:
    decode = avro_decoder(json.dumps(AVRO_SCHEMA), confluent=True)
    assert decode(b"\0\0\0\0\x07" + avro_bytes(AVRO_ORDER))["id"] == 2**63 - 1
    for payload in (avro_bytes(AVRO_ORDER), b"", b"\0\0"):
        with pytest.raises(NotAvro, match="zero byte"):
            decode(payload)


def order_class() -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(
        descriptor_pool(descriptor_set(), "set").FindMessageTypeByName("shop.Order")
    )


def full_order() -> Any:
    order = order_class()(
        id=-(2**63),
        count=-1,
        total=2**64 - 1,
        small=2**32 - 1,
        price=0.1,
        ok=True,
        name="é",
        hash=b"\xff\0",
        kind=3,
        tags=["a", "b"],
        card="4711",
        ratio=1.5,
        items=[{"sku": "x", "n": 2}],
    )
    order.at.FromJsonString("2999-12-31T23:59:59.123456789Z")
    order.took.FromJsonString("-1.500000001s")
    order.note.value = ""
    order.extra["k"] = [1, None]
    order.counts["c"] = 2**53 + 1
    order.by_id[5].sku = "y"
    return order


def test_a_protobuf_message_is_decoded_exactly() -> None:
    decode = protobuf_decoder(document_of(descriptor_set()), "shop.Order")
    found = decode(full_order().SerializeToString())
    assert json.loads(found.pop("extra")) == {"k": [1, None]}
    assert found == {
        "id": -(2**63),
        "count": -1,
        "total": 2**64 - 1,
        "small": 2**32 - 1,
        "price": 0.1,
        "ok": True,
        "name": "é",
        "hash": b"\xff\0",
        "kind": "OLD",
        "at": datetime.datetime(2999, 12, 31, 23, 59, 59, 123456, tzinfo=datetime.UTC),
        "took": Decimal("-1.500000001"),
        "note": "",
        "items": [{"sku": "x", "n": 2}],
        "counts": [("c", 2**53 + 1)],
        "maybe": None,
        "tags": ["a", "b"],
        "card": "4711",
        "iban": None,
        "by_id": [(5, {"sku": "y", "n": 0})],
        "ratio": 1.5,
    }


def test_an_empty_protobuf_message_has_defaults_and_nulls() -> None:
    found = protobuf_decoder(document_of(descriptor_set()), "shop.Order")(b"")
    assert (found["id"], found["name"], found["kind"], found["items"]) == (0, "", "NEW", [])
    assert [name for name, value in found.items() if value is None] == [
        *("at", "took", "note", "extra", "maybe", "card", "iban")
    ]


def test_a_number_that_the_enum_does_not_have_is_kept() -> None:
    payload = order_class()(kind=77).SerializeToString()
    assert protobuf_decoder(document_of(descriptor_set()), "shop.Order")(payload)["kind"] == "77"


@pytest.mark.parametrize("payload", [b"\xff", b"\x08", b'{"id": 1}'])
def test_bytes_that_are_no_protobuf_are_refused(payload: bytes) -> None:
    with pytest.raises(NotProtobuf, match=r"the payload is not the message shop\.Order"):
        protobuf_decoder(document_of(descriptor_set()), "shop.Order")(payload)
