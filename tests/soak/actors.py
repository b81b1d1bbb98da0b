"""All clients, by the name of their process. Only the one that is wanted is imported: some need much."""

from __future__ import annotations

from importlib import import_module

from tests.soak.actor import Actor

ACTORS = {
    "small": ("actor_log", "SmallActor"),
    "large": ("actor_log", "LargeActor"),
    "queue": ("actor_queue", "QueueActor"),
    "bucket": ("actor_bucket", "BucketActor"),
    "batch": ("actor_batch", "BatchActor"),
    "columns": ("actor_columns", "ColumnsActor"),
    "churn": ("actor_churn", "ChurnActor"),
    "bystander": ("actor_bystander", "BystanderActor"),
}


def make_actor(name: str, port: int, seed: int, rate: float) -> Actor:
    module, kind = ACTORS[name]
    actor: Actor = getattr(import_module(f"tests.soak.{module}"), kind)(name, port, seed, rate)
    return actor
