"""The workloads: each opens its connections, runs the load once and returns a sample."""

from headrace.bench.workloads.fixed_rate import FixedRate
from headrace.bench.workloads.idle_connections import IdleConnections
from headrace.bench.workloads.key_value import KeyValueGets, KeyValuePuts
from headrace.bench.workloads.many_subjects import ManySubjects
from headrace.bench.workloads.publish_subscribe import PublishSubscribe
from headrace.bench.workloads.request_reply import RequestReply
from headrace.bench.workloads.stream_consume import StreamConsume
from headrace.bench.workloads.stream_memory import StreamMemory
from headrace.bench.workloads.stream_publish import StreamPublish
from headrace.bench.workloads.stream_recovery import StreamRecovery
from headrace.bench.workloads.tls_handshakes import TlsHandshakes
from headrace.bench.workloads.workload import Experiment, Sample, Workload

__all__ = [
    "Experiment",
    "FixedRate",
    "IdleConnections",
    "KeyValueGets",
    "KeyValuePuts",
    "ManySubjects",
    "PublishSubscribe",
    "RequestReply",
    "Sample",
    "StreamConsume",
    "StreamMemory",
    "StreamPublish",
    "StreamRecovery",
    "TlsHandshakes",
    "Workload",
]
