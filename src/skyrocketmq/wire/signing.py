"""Signed requests: who a client is, shown by an HMAC over the request's fields and body.

    content    the values of all ext fields but `Signature`, in the order of their names, then the body
    signature  Base64 of HMAC-SHA1 of the content, with the secret key

Rule 1: names are ordered by UTF-16 units, as Java orders strings; only values enter the content, nothing between them.
Rule 2: there is no time and no nonce in it, so a signature proves a key and hides nothing: TLS does that.
Rule 3: two habits of Apache's are met on both sides. A value that the binary header carries as empty is read as null
and signed as the word `null`. And of the field `_UNIQUE_KEY_QUERY` of a query, clients from 4.9.4 on sign it, while
brokers leave it out: we leave it out when signing and accept both when checking.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

SECOND_FORM_BYTES_MAX: Final = 8 * 1024 * 1024  # of a body that is hashed twice to find out what its client signed
COPIED_BYTES_MAX: Final = 65_536  # of a body: to copy a larger one takes as long as to hash it


def sign_request(
    ext: Mapping[str, str | None] | None,
    body: bytes,
    *,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
    is_binary: bool = False,
) -> dict[str, str | None]:
    """The ext fields of the request with those of the signature added.

    `is_binary` says that the request will travel with the binary header, where an empty value arrives as null.
    """
    fields = dict(ext or {})
    fields[ACCESS_KEY] = access_key
    if security_token is not None:
        fields[SECURITY_TOKEN] = security_token
    signed = {name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY}
    if is_binary:
        signed = {name: value or None for name, value in signed.items()}
    fields[SIGNATURE] = _signature(signed, body, secret_key)
    return fields


def is_signed_by(ext: Mapping[str, str | None] | None, body: bytes, *, secret_key: str) -> bool:
    """Whether the request's `Signature` was made with this secret; takes the same time for any wrong one."""
    fields = dict(ext or {})
    given = (fields.get(SIGNATURE) or "").encode("utf-8", "replace")
    forms = [fields]
    if UNIQUE_KEY_QUERY in fields and not body:  # a query has none; over megabytes nobody may have two made
        forms.append({name: value for name, value in fields.items() if name != UNIQUE_KEY_QUERY})
    if None in fields.values() and len(body) <= SECOND_FORM_BYTES_MAX:
        # A client that signed "" and used the binary header is refused by Apache's broker; here it is understood.
        forms += [{name: value or "" for name, value in form.items()} for form in forms]
    matches = [hmac.compare_digest(given, _signature(form, body, secret_key).encode()) for form in forms]
    return any(matches)


def signed_content(fields: Mapping[str, str | None], body: bytes) -> bytes:
    """The bytes that are signed: values in the order of names, null as a word, then the body."""
    names = sorted(fields)
    if not "".join(names).isascii():  # beyond the first 65,536 characters the order of code points is another
        names.sort(key=_utf16_order)
    values = [fields[name] for name in names if name != SIGNATURE]
    text = "".join(["null" if value is None else value for value in values])
    return text.encode("utf-8", "replace") + body


def signature(content: bytes, secret_key: str) -> str:
    """Base64 of the HMAC-SHA1, with padding and on one line."""
    return base64.b64encode(hmac.digest(secret_key.encode("utf-8", "replace"), content, "sha1")).decode("ascii")


def _signature(fields: Mapping[str, str | None], body: bytes, secret_key: str) -> str:
    """The same of fields and body."""
    if len(body) <= COPIED_BYTES_MAX:
        return signature(signed_content(fields, body), secret_key)
    content = hmac.new(secret_key.encode("utf-8", "replace"), signed_content(fields, b""), "sha1")
    content.update(body)
    return base64.b64encode(content.digest()).decode("ascii")


def _utf16_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
