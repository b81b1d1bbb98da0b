"""The source and the sink with a server that demands TLS and .creds; and that no secret is seen anywhere."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from headrace.client import Client, Tls
from headrace.keys.creds import parse_creds
from headrace.keys.nkeys import KeyPair
from headrace.spark.connection_options import ConnectionOptions
from headrace.spark.failure import DataSourceError, in_one_line
from headrace.spark.options import Use, read_options, write_options
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.reading.batch_reader import BatchReader
from headrace.spark.reading.stream_reader import StreamReader
from headrace.spark.start import start_query
from headrace.spark.writing.sink import StreamWriter
from tests.certificates import Authority
from tests.client.operators import SECURE_KINDS, Operator
from tests.servers import Server, running_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PASSWORD = "canary-of-the-key"


@dataclass(frozen=True)
class Guarded:
    """A server in operator mode that demands TLS and a client certificate, with a stream of ten messages."""

    server: Server
    authority: Authority
    operator: Operator
    directory: Path
    creds: Path
    options: dict[str, str]

    @property
    def contents(self) -> dict[str, str]:
        """The same options, with the secrets instead of paths."""
        secrets = {
            f"{name}.secret": Path(self.options[name]).read_text() for name in ("nats.creds", "nats.tls.key")
        }
        kept = {name: value for name, value in self.options.items() if f"{name}.secret" not in secrets}
        return kept | secrets

    @property
    def secrets(self) -> set[str]:
        jwt, pair = parse_creds(self.creds.read_text())
        return {jwt, pair.seed, PASSWORD, Path(self.options["nats.tls.key"]).read_text().splitlines()[1]}

    def client(self) -> Client:
        options = self.options
        tls = Tls(
            ca=self.authority.certificate,
            cert=options["nats.tls.cert"],
            key=options["nats.tls.key"],
            key_password=options["nats.tls.keyPassword"],
        )
        return Client.connect(self.options["servers"], creds=str(self.creds), tls=tls)


@pytest.fixture(scope="module", params=SECURE_KINDS)
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    authority, operator = Authority(directory / "ca"), Operator()
    issued, ours = authority.issue("server"), authority.issue("client", password=PASSWORD)
    creds = directory / "user.creds"
    creds.write_text(operator.creds())
    config = (
        f'{operator.config()}jetstream {{ store_dir: "{directory}/store" }}\n'
        f'tls {{ cert_file: "{issued.certificate}", key_file: "{issued.key}", '
        f'ca_file: "{authority.certificate}", verify: true, timeout: 30 }}\n'
    )
    with running_server(request.param, config) as server:
        options = {
            "servers": f"tls://{server.host}:{server.port}",
            "nats.creds": str(creds),
            "nats.tls.ca": authority.certificate,
            "nats.tls.cert": ours.certificate,
            "nats.tls.key": ours.key,
            "nats.tls.keyPassword": PASSWORD,
        }
        found = Guarded(server, authority, operator, directory, creds, options)
        with found.client() as client:
            for name, subject in ("IN", "in"), ("OUT", "out"):
                config = json.dumps({"name": name, "subjects": [subject], "duplicate_window": 600 * 10**9})
                assert b"error" not in client.request(f"$JS.API.STREAM.CREATE.{name}", config.encode())
            publisher = client.publisher(stream="IN")
            publisher.publish("in", pa.array([b"%d" % number for number in range(10)]))
            publisher.flush()
        yield found


def connection_of(options: dict[str, str]) -> ConnectionOptions:
    found: Any = read_options(CaseInsensitiveDict(options | {"stream": "IN"}), Use.BATCH)
    return found.connection


def assert_hidden(text: str, guarded: Guarded) -> None:
    """Neither as they are, nor as JSON and Java would write them."""
    for secret in guarded.secrets:
        assert secret not in text


def text_of(error: BaseException) -> str:
    return f"{error} {error!r} {getattr(error, 'hint', '')}"


# -- without Spark


def test_what_is_in_the_files_reaches_a_worker_that_does_not_have_them(
    guarded: Guarded, tmp_path: Path
) -> None:
    creds = tmp_path / "gone.creds"
    creds.write_text(guarded.creds.read_text())
    connection = connection_of(guarded.options | {"nats.creds": str(creds)})
    creds.unlink()
    sent = pickle.loads(pickle.dumps(connection))
    Client.connect(list(sent.servers), **vars(sent.credentials), tls=sent.tls).close()


def test_a_streaming_read_sends_renewed_files_with_each_batch(guarded: Guarded, tmp_path: Path) -> None:
    creds = tmp_path / "user.creds"
    creds.write_text(guarded.creds.read_text())
    options: Any = read_options(
        CaseInsensitiveDict(guarded.options | {"nats.creds": str(creds), "stream": "IN"}), Use.STREAM
    )
    reader = StreamReader(options)
    end = reader.reportLatestOffset()
    renewed = guarded.operator.creds()
    creds.write_text(renewed)
    (partition,) = pickle.loads(pickle.dumps(reader.partitions({}, end)))
    assert partition.connection.credentials.creds == renewed
    creds.unlink()
    (partition,) = reader.partitions({}, end)
    assert partition.connection.credentials.creds == guarded.creds.read_text()  # what it had
    reader.stop()


def test_wrong_options(guarded: Guarded, tmp_path: Path) -> None:
    seed = KeyPair.create("user").seed
    missing = str(tmp_path / "missing")
    for wrong, told in (
        ({"nats.creds": missing}, f"the credentials file {missing} cannot be read: No such file"),
        ({"nats.tls.ca": missing}, f"{missing} cannot be read: No such file"),
        ({"nats.creds": guarded.creds.read_text()}, "`nats.creds` is the path of a file; what is in it"),
        ({"nats.nkey": seed}, "`nats.nkey` is the path of a file"),
        ({"nats.nkey.secret": seed}, "both creds and nkey are given; a client has one identity"),
        ({"nats.creds.secret": "x"}, "`nats.creds` and `nats.creds.secret` are both given; omit one"),
        ({"nats.seed.secret": seed}, "a seed without its JWT"),
        ({"nats.tls.key.secret": "canary"}, "`nats.tls.key` and `nats.tls.key.secret` are both given"),
        ({"servers": "nats://u:canary@127.0.0.1"}, "`servers` has credentials in a URL, which Spark would"),
        ({"nats.tls.insecure": "yes"}, "`nats.tls.insecure` must be true or false"),
    ):
        with pytest.raises(DataSourceError) as caught:
            connection_of(guarded.options | wrong)
        assert told in in_one_line(caught.value)
        assert not {"canary", seed} & set(text_of(caught.value).replace("'", " ").split())


def test_a_pipeline_takes_its_identity_from_files_and_variables(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text(Path(guarded.authority.certificate).read_text())
    (tmp_path / "shop.yml").write_text(
        f"""
        server:
          url: {guarded.options["servers"]}
          creds: "${{SHOP_CREDS}}"
          tls:
            ca: ca.pem
            cert: {guarded.options["nats.tls.cert"]}
            key: "${{SHOP_KEY}}"
            key_password: "${{SHOP_PASSWORD}}"
        checkpoint: state
        sources: {{orders: {{stream: IN}}}}
        sinks: {{raw: {{from: orders, table: t}}}}
        """
    )
    monkeypatch.setenv("SHOP_CREDS", guarded.creds.read_text())
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.setenv("SHOP_KEY", Path(guarded.options["nats.tls.key"]).read_text())
    found = read_pipeline(tmp_path / "shop.yml")
    server = found.server
    assert server.tls is not None
    assert server.tls.ca == str(tmp_path / "ca.pem")
    with Client.connect(list(server.urls), **vars(server.credentials), tls=server.tls) as client:
        assert "IN" in client.stream_names()
    from headrace.cli.spark.source_options import source_options
    from headrace.cli.target import Target

    options = source_options(Target(servers=server.urls, credentials=server.credentials, tls=server.tls))
    assert {"nats.creds.secret", "nats.tls.key.secret", "nats.tls.ca"} < options.keys()
    connection_of(options)
    assert_hidden(repr(found), guarded)


def test_credentials_in_the_url_of_a_command_become_options_that_spark_hides() -> None:
    from headrace.cli.spark.source_options import source_options
    from headrace.cli.target import Target
    from headrace.client.credentials import Credentials

    urls = ("nats://anna:canary@a:1", "tls://anna:canary@b:2")
    assert source_options(Target(servers=urls, credentials=Credentials())) == {
        "servers": "nats://a:1,tls://b:2",
        "nats.user": "anna",
        "nats.password": "canary",
    }


# -- with Spark


def test_a_stream_is_read_and_written_over_tls_with_creds(
    guarded: Guarded, spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.read.format("nats").options(**guarded.options).load("IN").selectExpr("data")
    assert sorted(int(row.data) for row in rows.collect()) == list(range(10))
    rows.write.format("nats").options(**guarded.options).option("subject", "out").mode("append").save()
    source = spark.readStream.format("nats").options(**guarded.contents)
    writer = (
        source.option("startingOffsets", "earliest")
        .load("IN")
        .selectExpr("data")
        .writeStream.format("nats")
        .options(**guarded.options)
        .option("subject", "out")
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
    )
    start_query(writer).awaitTermination()
    with guarded.client() as client:
        (batch,) = client.fetch_range("OUT", 1, 20)
        assert sorted(map(int, batch["data"].to_pylist())) == sorted([*range(10)] * 2)


@pytest.mark.parametrize("guarded", ["headrace"], indirect=True)  # what Spark shows is the same with both
def test_no_secret_is_seen(guarded: Guarded, spark: SparkSession, tmp_path: Path) -> None:
    """In plans, the event log (from which Spark's web pages are made), progress, checkpoints and errors."""
    secrets = dict(guarded.contents)
    seen: dict[str, str] = {}
    with event_log(spark, tmp_path / "events"):
        rows = spark.read.format("nats").options(**secrets).load("IN")
        stream = spark.readStream.format("nats").options(**secrets).option("startingOffsets", "earliest")
        following = stream.load("IN").selectExpr("data")
        names = ", ".join(f"`{name}` '{value}'" for name, value in secrets.items())
        with_view = f"CREATE OR REPLACE TEMPORARY VIEW guarded USING nats OPTIONS (stream 'IN', {names})"
        seen["the statement of a view"] = spark.sql(with_view)._jdf.queryExecution().toString()
        for name, frame in (
            ("a batch", rows),
            ("a stream", following),
            ("a view", spark.sql("SELECT * FROM guarded")),
        ):
            for mode in "extended", "formatted", "cost", "codegen":
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed), contextlib.suppress(Exception):
                    frame.explain(mode)
                seen[f"{name}, explained, {mode}"] = printed.getvalue()
            seen[f"{name}, its queries"] = frame._jdf.queryExecution().toString()
        assert spark.sql("SELECT * FROM guarded").count() == 10
        rows.selectExpr("data").write.format("nats").options(**secrets).option("subject", "out").mode(
            "append"
        ).save()
        writer = following.writeStream.format("nats").options(**secrets).option("subject", "out")
        writer = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
        query = start_query(writer)
        query.awaitTermination()
        seen["progress"] = json.dumps([progress.json for progress in query.recentProgress])
        for what, wrong in (
            ("an unknown option", {"nats.cred": "1"}),
            ("no such stream", {"stream": "NONE"}),
            ("a wrong key", {"nats.tls.keyPassword": "wrong"}),
            ("a wrong value", {"failOnDataLoss": "x"}),
        ):
            with pytest.raises(Exception) as caught:  # noqa: PT011, whatever Spark makes of it
                spark.read.format("nats").options(**secrets | {"stream": "IN"} | wrong).load().collect()
            seen[what] = text_of(caught.value)
    options: Any = read_options(CaseInsensitiveDict(secrets | {"stream": "IN"}), Use.STREAM)
    sink = write_options(CaseInsensitiveDict(secrets | {"subject": "out"}))
    reader = StreamReader(options)
    end = reader.reportLatestOffset()
    seen["what Spark gets"] = repr(
        [options, sink, reader.partitions({}, end), vars(reader), vars(BatchReader(options))]
    )
    seen["the sink"] = repr(StreamWriter(sink, rows.select("data").schema).task)
    reader.stop()
    for path in [*(tmp_path / "events").rglob("*"), *(tmp_path / "state").rglob("*")]:
        if path.is_file():
            seen[str(path)] = path.read_text(errors="replace")
    # Those that show options show ours, without the values: the log has been written, and looked at.
    assert "nats.creds.secret=*********(redacted)" in seen["a stream, its queries"]
    logged = "".join(text for place, text in seen.items() if "/events/" in place)
    assert "nats.creds.secret -> *********(redacted)" in logged
    for place, text in seen.items():
        for secret in guarded.secrets:
            assert secret not in text, place


@contextlib.contextmanager
def event_log(spark: SparkSession, directory: Path) -> Iterator[None]:
    """What the history server would get, of a session that is already running."""
    directory.mkdir()
    context: Any = spark.sparkContext
    java = context._jvm
    conf = context._conf._jconf.clone().set("spark.eventLog.compress", "false")
    listener = java.org.apache.spark.scheduler.EventLoggingListener(
        "canary", java.scala.Option.empty(), java.java.net.URI(f"file://{directory}"), conf
    )
    listener.start()
    context._jsc.sc().addSparkListener(listener)
    try:
        yield
        context._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        context._jsc.sc().removeSparkListener(listener)
        listener.stop()
