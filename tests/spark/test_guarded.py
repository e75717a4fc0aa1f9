"""Source and sink at a broker that wants to know who asks: accounts, certificates on both sides, no secret shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.errors import PySparkException

from skyrocketmq import Credentials, Message
from skyrocketmq.blocking import Producer
from skyrocketmq.cli.main import main
from skyrocketmq.config import write_properties
from skyrocketmq.net import ClientTls
from skyrocketmq.testing import BlockingCluster, LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

COUNT = 20
SECRETS = ("secret-of-pipeline", "a-wrong-secret", "token-of-pipeline", "password-of-key")
ACCOUNTS = """
accounts:
  - accessKey: pipeline
    secretKey: secret-of-pipeline
    topicPerms: [Orders=SUB, Copies=PUB|SUB, Mirrored=PUB|SUB]
    defaultGroupPerm: SUB
"""


class Guarded:
    """A cluster that lets in who is known, and the options with which we are."""

    def __init__(self, cluster: BlockingCluster, options: Mapping[str, str], paths: Mapping[str, Path]) -> None:
        self.cluster = cluster
        self.options = dict(options)
        self.paths = paths


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    authority, strangers = trustme.CA(), trustme.CA()
    paths = {name: directory / f"{name}.pem" for name in ("authority", "server", "client", "stranger")}
    authority.cert_pem.write_to_path(str(paths["authority"]))
    for name, issuer in (("server", authority), ("client", authority), ("stranger", strangers)):
        issuer.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(paths[name]))
    accounts = directory / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    tls = {
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(paths["server"]),
        "tls.server.keyPath": str(paths["server"]),
        "tls.server.trustCertPath": str(paths["authority"]),
        "tls.server.need.client.auth": "require",
        "tls.enable": "true",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(paths["authority"]),
        "tls.client.certPath": str(paths["client"]),
        "tls.client.keyPath": str(paths["client"]),
    }
    settings = {**tls, "aclEnable": "true", "rocketmq.acl.plain.file": str(accounts)}
    with LocalCluster(settings=settings, namesrv_settings=tls) as cluster:
        cluster.create_topic("Orders", queues=2)
        cluster.create_topic("Copies", queues=2)
        cluster.create_topic("Mirrored", queues=1)
        options = {
            "namesrv": cluster.namesrv,
            "accessKey": "pipeline",
            "secretKey": "secret-of-pipeline",
            "securityToken": "token-of-pipeline",
            "tls": "true",
            "tlsVerify": "true",
            "tlsCheckHostname": "true",
            "tlsTrustPath": str(paths["authority"]),
            "tlsCertificatePath": str(paths["client"]),
            "tlsKeyPath": str(paths["client"]),
            "tlsKeyPassword": "password-of-key",  # for a key that has none: not asked for
        }
        client = ClientTls(verify=True, trust_path=paths["authority"], certificate_path=paths["client"])
        known = Credentials("pipeline", "secret-of-pipeline")
        with Producer("fill", namesrv=cluster.namesrv, credentials=known, tls=client) as producer:
            for number in range(COUNT):
                producer.send(Message("Copies", b"%d" % number, keys=[f"k{number}"]))
        yield Guarded(cluster, options, paths)


def read(spark: SparkSession, guarded: Guarded, topic: str = "Copies", **options: str) -> DataFrame:
    given = {name: value for name, value in (guarded.options | options).items() if value}
    return spark.read.format("rocketmq").options(**given, subscribe=topic).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def test_a_mirror_is_let_in_by_keys_of_the_environment_and_options_of_a_file(
    spark: SparkSession,
    guarded: Guarded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """None of what lets it in stands on the command line."""
    keys = {"accessKey": "ACCESS_KEY", "secretKey": "SECRET_KEY", "securityToken": "SECURITY_TOKEN"}
    file = tmp_path / "target"
    file.write_bytes(write_properties({name: text for name, text in guarded.options.items() if name not in keys}))
    with LocalCluster() as source:
        source.create_topic("Mirrored", queues=1)
        with Producer("fill", namesrv=source.namesrv) as producer:
            producer.send(Message("Mirrored", b"7"))
        words = ["spark", "mirror", "-n", source.namesrv, "--target", guarded.cluster.namesrv, "--topics", "Mirrored"]
        words += ["--checkpoint", str(tmp_path / "checkpoint"), "--target-option-file", str(file)]
        for option, name in keys.items():
            monkeypatch.setenv(f"ROCKETMQ_TARGET_{name}", guarded.options[option])
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert (ended.value.code, capsys.readouterr().err) == (0, "")
    assert numbers(read(spark, guarded, "Mirrored")) == [7]


def said(spark: SparkSession) -> str:
    """What Spark's pages would show: the plan of every query so far."""
    jvm_session = spark._jsparkSession
    executions = jvm_session.sharedState().statusStore().executionsList()
    return "\n".join(
        f"{executions.apply(number).description()} {executions.apply(number).physicalPlanDescription()}"
        for number in range(executions.size())
    )


def check_no_secret(*texts: str) -> None:
    for secret in SECRETS:
        for text in texts:
            assert secret not in text


def test_who_is_known_reads_and_writes_in_batches_and_as_a_stream(
    spark: SparkSession,
    guarded: Guarded,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="skyrocketmq")
    frame = read(spark, guarded)
    assert numbers(frame) == list(range(COUNT))
    assert numbers(read(spark, guarded, keys="k3,k4")) == [3, 4]
    frame.explain(extended=True)
    frame.select("body", "keys").write.format("rocketmq").options(**guarded.options, topic="Copies").mode(
        "append"
    ).save()
    source = spark.readStream.format("rocketmq").options(**guarded.options, subscribe="Copies", group="shown")
    writing = source.option("startingOffsets", "earliest").load().select("body", "keys").writeStream.format("rocketmq")
    writing = writing.options(
        **guarded.options,
        topic="Copies",
        mode="effectively-once",
        checkpointLocation=str(tmp_path / "checkpoint"),
    )
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = "".join(str(one.json) for one in query.recentProgress)
    query.explain(extended=True)
    assert numbers(read(spark, guarded)) == sorted([*range(COUNT)] * 4)
    printed = capfd.readouterr()
    assert "rocketmq" in printed.out
    checkpoint = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "broker-a:0" in checkpoint
    check_no_secret(printed.out, printed.err, progress, checkpoint, said(spark), caplog.text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accessKey": "", "secretKey": "", "securityToken": ""}, "AclException|accessKey|no permission|account"),
        ({"secretKey": "a-wrong-secret"}, "signature|AclException"),
        ({"accessKey": "nobody-known"}, "nobody-known|AclException"),
        ({"tlsCertificatePath": "", "tlsKeyPath": "", "tlsKeyPassword": ""}, "no name server could be asked"),
        ({"tlsCertificatePath": "stranger", "tlsKeyPath": "stranger"}, "no name server could be asked"),
    ],
    ids=["nobody", "a wrong secret", "an unknown account", "no certificate", "a stranger's certificate"],
)
def test_who_is_not_known_gets_an_error_that_tells_no_secret(
    spark: SparkSession, guarded: Guarded, options: dict[str, str], message: str
) -> None:
    options = {name: str(guarded.paths["stranger"]) if text == "stranger" else text for name, text in options.items()}
    with pytest.raises(PySparkException, match=message) as reading:
        read(spark, guarded, **options, retries="0", timeout="5s").count()
    given = {name: value for name, value in (guarded.options | options).items() if value}
    rows = spark.createDataFrame([("x",)], "body string")
    with pytest.raises(PySparkException, match=message) as writing:
        rows.write.format("rocketmq").options(**given, retries="0", timeout="5s", topic="Copies").mode("append").save()
    check_no_secret(str(reading.value), str(writing.value), said(spark))


def test_a_topic_without_permission_is_named(spark: SparkSession, guarded: Guarded) -> None:
    rows = spark.createDataFrame([("x",)], "body string")
    with pytest.raises(PySparkException, match="Orders") as refused:
        rows.write.format("rocketmq").options(**guarded.options, topic="Orders", retries=0).mode("append").save()
    check_no_secret(str(refused.value))
