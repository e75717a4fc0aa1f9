"""Accounts for tests of access control: a file of them, requests signed by them."""

from __future__ import annotations

from pathlib import Path

from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.signing import sign_request
from tests.broker.requests import GROUP, TOPIC

ACL_PATH = Path("/home/conf/plain_acl.yml")
SECRETS = {
    "the-admin": "admin-secret",
    "the-writer": "writer-secret",
    "the-reader": "reader-secret",
    "the-nobody": "nobody-secret",
    "numeric1": "12345678",
}
ACL_FILE = f"""
globalWhiteRemoteAddresses:
  - 10.9.8.*

accounts:
  - accessKey: the-admin
    secretKey: admin-secret
    whiteRemoteAddress:
    admin: true
  - accessKey: the-writer
    secretKey: writer-secret
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - {TOPIC}=PUB
  - accessKey: the-reader
    secretKey: reader-secret
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - {TOPIC}=SUB
    groupPerms:
      - {GROUP}=SUB
  - accessKey: the-nobody
    secretKey: nobody-secret
  - accessKey: numeric1
    secretKey: 12345678
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB
"""


def signed(frame: Frame, account: str, *, secret: str | None = None) -> Frame:
    """The request as a client with this account sends it."""
    ext = sign_request(
        frame.ext,
        frame.body,
        access_key=account,
        secret_key=SECRETS[account] if secret is None else secret,
        is_binary=frame.encoding is Encoding.BINARY,
    )
    return Frame(
        frame.code,
        frame.opaque,
        frame.flag,
        ext,
        frame.body,
        language=frame.language,
        version=frame.version,
        encoding=frame.encoding,
    )
