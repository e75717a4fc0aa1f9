"""Accounts from files: what they may, and what a file may not look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocketmq.access.accounts import AccessTable, Permission, parse_access_file
from skyrocketmq.errors import ConfigError
from skyrocketmq.model import DataVersion
from tests.broker.accounts import ACL_FILE, SECRETS
from tests.broker.requests import GROUP, TOPIC

PUB, SUB, ANY = Permission.PUB, Permission.SUB, Permission.PUB | Permission.SUB
PATH = Path("plain_acl.yml")


def table(*texts: str) -> AccessTable:
    return AccessTable([parse_access_file(Path(f"{n}.yml"), text.encode()) for n, text in enumerate(texts)])


def account_text(**fields: str) -> str:
    values = {"accessKey": "account-1", "secretKey": "secret-1", **fields}
    return "accounts:\n- " + "\n  ".join(f"{key}: {value}" for key, value in values.items())


def test_explicit_permissions_count_before_defaults() -> None:
    accounts = table(ACL_FILE).accounts
    writer, reader = accounts["the-writer"], accounts["the-reader"]
    assert writer.may_use_topic(TOPIC, PUB)
    assert writer.may_use_topic(TOPIC, ANY)
    assert not writer.may_use_topic(TOPIC, SUB)
    assert not writer.may_use_topic("Other", PUB)
    assert not writer.may_use_group(GROUP, SUB)
    assert reader.may_use_topic(TOPIC, SUB)
    assert reader.may_use_group(GROUP, SUB)
    assert not reader.may_use_group("other", SUB)
    anyone = accounts["numeric1"]
    assert anyone.may_use_topic("Other", PUB)
    assert anyone.may_use_group("other", SUB)
    assert not anyone.may_use_group("other", PUB)


@pytest.mark.parametrize("word", ["", "pub", "PUB,SUB", "ALL", "DENY"])
def test_what_is_not_said_in_so_many_words_is_denied(word: str) -> None:
    (account,) = table(account_text(defaultTopicPerm=word)).accounts.values()
    assert not account.may_use_topic(TOPIC, ANY)


@pytest.mark.parametrize("word", ["PUB|SUB", "SUB|PUB", " PUB|SUB "])
def test_both_permissions_may_stand_in_either_order(word: str) -> None:
    (account,) = table(account_text(topicPerms=f"['{TOPIC} = {word}']")).accounts.values()
    assert account.may_use_topic(TOPIC, PUB)
    assert account.may_use_topic(TOPIC, SUB)


def test_deny_on_a_topic_beats_the_default() -> None:
    text = account_text(defaultTopicPerm="PUB|SUB", topicPerms="[Secret=DENY]")
    (account,) = table(text).accounts.values()
    assert account.may_use_topic("Other", SUB)
    assert not account.may_use_topic("Secret", SUB)


def test_an_administrator_without_permissions_may_all_and_one_with_some_only_those() -> None:
    (unbound,) = table(account_text(admin="true")).accounts.values()
    assert unbound.may_use_topic("Any", ANY)
    assert unbound.may_use_group("any", SUB)
    (bound,) = table(account_text(admin="true", topicPerms="[Mine=PUB]")).accounts.values()
    assert bound.may_use_topic("Mine", PUB)
    assert not bound.may_use_topic("Any", PUB)
    assert not bound.may_use_group("any", SUB)


def test_a_secret_of_digits_is_a_text() -> None:
    assert table(ACL_FILE).accounts["numeric1"].secret_key == "12345678"


def test_of_an_access_key_in_two_files_the_first_counts() -> None:
    found = table(account_text(secretKey="first-one"), account_text(secretKey="second-one"))
    assert found.accounts["account-1"].secret_key == "first-one"
    assert found.paths["account-1"] == Path("0.yml")
    assert found.repeated == ["account-1"]


def test_white_addresses_of_all_files_count() -> None:
    found = table("globalWhiteRemoteAddresses: ['10.0.0.1']", "globalWhiteRemoteAddresses: [10.0.0.2, '']")
    assert [found.is_white(bytes([10, 0, 0, last])) for last in (1, 2, 3, 1)] == [True, True, False, True]


def test_a_file_has_a_version() -> None:
    text = "dataVersion:\n- {counter: 3, timestamp: 1700000000000}"
    assert parse_access_file(PATH, text.encode()).version == DataVersion(timestamp=1_700_000_000_000, counter=3)
    assert parse_access_file(PATH, b"").version == DataVersion()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (account_text(accessKey="short6"), "accessKey 'short6' of an account has fewer than 7"),
        (account_text(secretKey="abcdef"), "secretKey of an account has fewer than 7"),
        ("accounts:\n- accessKey: account-1", "secretKey"),
        (account_text(topicPerms="[Orders]"), "has not the form"),
        (account_text(topicPerms="[Orders=PUB=SUB]"), "has not the form"),
        (account_text(whiteRemoteAddress="10.1"), "whiteRemoteAddress of account account-1"),
        ("globalWhiteRemoteAddresses: ['10.1']", "no pattern"),
        ("globalWhiteRemoteAddresses: 10.1.2.3", "not a list"),
        ("accounts: {a: b}", "not a list"),
        ("accounts: [1]", "right form"),
        ("accounts:\n- {accessKey: [1], secretKey: my-secret}", "right form"),
        ("dataVersion: [{counter: x}]", "right form"),
        ("- 1", "has no accounts"),
        ("accounts:\n  secretKey: 'my-secret\n", "not YAML at line"),
        ("\x00", "not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_without_showing_a_secret(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        table(text)
    assert "abcdef" not in str(refused.value)
    assert "my-secret" not in str(refused.value)


def test_no_representation_shows_a_secret() -> None:
    found = table(ACL_FILE)
    shown = repr(found.accounts) + repr(found.files) + str(found)
    assert "the-admin" in shown
    assert [secret for secret in SECRETS.values() if secret in shown] == []
