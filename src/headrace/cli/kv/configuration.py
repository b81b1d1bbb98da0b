"""The configuration of a bucket's stream, from the options of `headrace kv add`; as nats.go makes it."""

from __future__ import annotations

from typing import Any

from headrace.cli.kv.bucket import DUPLICATE_WINDOW, PREFIX
from headrace.errors import UsageError


def stream_config(bucket: str, options: dict[str, Any]) -> dict[str, Any]:
    ttl = options["ttl"]
    config: dict[str, Any] = {
        "name": f"{PREFIX}{bucket}",
        "description": options["description"] or "",
        "max_msgs_per_subject": options["history"],
        "max_age": ttl,
        "max_bytes": options["max_bucket_size"] or -1,
        "max_msg_size": options["max_value_size"] or -1,
        "max_msgs": -1,
        "max_consumers": -1,
        "storage": "memory" if options["storage"].startswith("m") else "file",
        "num_replicas": options["replicas"],
        "retention": "limits",
        "discard": "new",
        "duplicate_window": min(ttl, DUPLICATE_WINDOW) if ttl else DUPLICATE_WINDOW,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "deny_delete": True,
        "compression": "s2" if options["compress"] else "none",
    }
    if options["metadata"]:
        config["metadata"] = pairs(options["metadata"])
    if options["marker_ttl"]:
        config |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": options["marker_ttl"]}
    if options["cluster"] or options["tags"]:
        config["placement"] = {"cluster": options["cluster"] or "", "tags": list(options["tags"])}
    if bool(options["republish_source"]) > bool(options["republish_destination"]):
        raise UsageError("--republish-source needs --republish-destination")
    if options["republish_destination"]:
        config["republish"] = {
            "src": options["republish_source"] or ">",
            "dest": options["republish_destination"],
            "headers_only": options["republish_headers"],
        }
    return config | _origins(bucket, options["mirror"], options["mirror_domain"], options["source"])


def _origins(bucket: str, mirror: str | None, domain: str | None, sources: tuple[str, ...]) -> dict[str, Any]:
    """Its own subjects, or where its messages come from."""
    if mirror and sources:
        raise UsageError("use either --mirror or --source, not both")
    if domain and not mirror:
        raise UsageError("--mirror-domain needs --mirror")
    if mirror:
        origin: dict[str, Any] = {"name": f"{PREFIX}{mirror.removeprefix(PREFIX)}"}
        if domain:
            origin["external"] = {"api": f"$JS.{domain}.API"}
        return {"mirror": origin, "mirror_direct": True}
    fields: dict[str, Any] = {"subjects": [f"$KV.{bucket}.>"]}
    if sources:
        fields["sources"] = [
            {
                "name": f"{PREFIX}{source.removeprefix(PREFIX)}",
                "subject_transforms": [
                    {"src": f"$KV.{source.removeprefix(PREFIX)}.>", "dest": f"$KV.{bucket}.>"}
                ],
            }
            for source in sources
        ]
    return fields


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """From `name=value` or `name:value`, as the nats tool reads metadata. Raises UsageError."""
    found = {}
    for text in texts:
        for separator in ("=", ":"):
            name, given, value = text.partition(separator)
            if given and name:
                found[name.strip()] = value.strip()
                break
        else:
            raise UsageError(f"metadata {text!r} is not of the form name=value")
    return found
