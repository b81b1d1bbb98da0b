"""An object and a bucket of an object store, for people and for programs."""

from __future__ import annotations

from typing import Any

from headrace.cli.human import duration, size, size_limit
from headrace.cli.jetstream.shown import local_time
from headrace.cli.object.digest import decode
from headrace.cli.object.store import PREFIX
from headrace.cli.output import one_line, plural
from headrace.cli.tables import facts, print_json
from headrace.client.api import parse_time


def describe_object(meta: dict[str, Any]) -> dict[str, Any]:
    fields = ("bucket", "name", "description", "size", "chunks", "digest", "nuid", "headers", "metadata")
    return {field: meta[field] for field in fields if meta.get(field)} | {
        "size": meta["size"],
        "chunks": meta["chunks"],
        "modified": meta["mtime"],
        **({"link": meta["options"]["link"]} if (meta.get("options") or {}).get("link") else {}),
    }


def show_object(meta: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(describe_object(meta))
        return
    headers = meta.get("headers") or {}
    link = (meta.get("options") or {}).get("link") or {}
    facts(
        [
            ("Description", meta.get("description") or ""),
            ("Size", f"{size(meta['size'])} ({plural(meta['size'], 'byte')})"),
            ("Modified", local_time(parse_time(meta["mtime"]))),
            ("Chunks", meta["chunks"]),
            ("SHA-256", decode(meta["digest"]).hex()),
            ("Link to", f"{link.get('bucket')} > {link.get('name', '')}" if link else ""),
            (
                "Headers",
                ", ".join(f"{name}: {', '.join(map(str, values))}" for name, values in headers.items()),
            ),
        ],
        title=f"Object {one_line(str(meta.get('bucket', '')))} > {one_line(meta['name'])}",
    )


def describe_bucket(info: dict[str, Any]) -> dict[str, Any]:
    config, state = info["config"], info["state"]
    return {
        "bucket": config["name"].removeprefix(PREFIX),
        "description": config.get("description", ""),
        "created": info["created"],
        "bytes": state["bytes"],
        "last_update": state["last_ts"],
        "ttl": config.get("max_age", 0),
        "max_bucket_size": config.get("max_bytes", -1),
        "storage": config["storage"],
        "replicas": config.get("num_replicas", 1),
        "sealed": bool(config.get("sealed")),
        "compressed": config.get("compression", "none") != "none",
        "stream": config["name"],
    }


def show_bucket(info: dict[str, Any], as_json: bool) -> None:
    bucket = describe_bucket(info)
    if as_json:
        print_json(bucket)
        return
    metadata = info["config"].get("metadata") or {}
    facts(
        [
            ("Description", bucket["description"]),
            ("Size", size(bucket["bytes"])),
            ("Maximum size", size_limit(bucket["max_bucket_size"])),
            ("TTL", duration(bucket["ttl"]) if bucket["ttl"] else "unlimited"),
            ("Sealed", "yes" if bucket["sealed"] else "no"),
            ("Compressed", "yes" if bucket["compressed"] else "no"),
            ("Storage", bucket["storage"]),
            ("Replicas", bucket["replicas"]),
            ("Stream", bucket["stream"]),
            (
                "Metadata",
                ", ".join(f"{k}={v}" for k, v in sorted(metadata.items()) if not k.startswith("_nats.")),
            ),
        ],
        title=f"Bucket {bucket['bucket']}, created {local_time(parse_time(info['created']))}",
    )
