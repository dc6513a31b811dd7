"""What a talkative engine makes of a secret: each line is one way in which programs have been seen to print one.

Written apart from what hides them, with other tools where there are any: a form that both sides forget would prove nothing.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
import shlex
import urllib.parse
from collections.abc import Iterator


def lines(name: str, secret: str) -> list[str]:
    in_json = json.dumps({"auth": secret})
    return [
        f"{name}={secret}",
        f"loaded {secret} from the environment",
        in_json,
        json.dumps({"body": in_json}),
        json.dumps({"auth": secret}, ensure_ascii=False).replace("/", "\\/"),
        repr({"auth": secret}),
        f"Namespace(hub={secret!r}, key={secret.encode()!r})",
        "GET /models?auth=" + urllib.parse.quote(secret, safe=""),
        "GET /models?auth=" + urllib.parse.quote_plus(secret),
        "GET /models?auth=" + lower_escapes(urllib.parse.quote(secret, safe="")),
        f"postgres://engine:{urllib.parse.quote(secret, safe='')}@db/models",
        "Authorization: Basic " + base64.b64encode(f"engine:{secret}".encode()).decode(),
        "proxy Basic " + base64.b64encode(f"a:{secret}".encode()).decode(),
        "token64 " + base64.urlsafe_b64encode(f"ab:{secret}!".encode()).decode(),
        "alone " + base64.b64encode(secret.encode()).decode(),
        "+ vllm serve --hub " + shlex.quote(secret),
        f"['vllm', 'serve', '--api-key', {secret!r}]",
    ]


def lower_escapes(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)


def found_in(data: bytes, secret: str) -> list[str]:
    """How the secret stands in these bytes: as it is, once the escapes of JSON, Python and addresses are undone, in base64."""
    texts, words = readings(data)
    found = [how for text, how in texts.items() if secret in text]
    wanted = secret.encode()
    return found + [f"in base64: {word.decode()}" for word, plain in words if wanted in plain]


@functools.lru_cache(maxsize=1)
def readings(data: bytes) -> tuple[dict[str, str], list[tuple[bytes, bytes]]]:
    """(every text that these bytes may be taken for, once, and how; every word that may be base64, and what it then says)"""
    as_it_is = data.decode("utf-8", "replace")
    texts = {as_it_is.replace("'\"'\"'", "'"): "as a shell's word", as_it_is: "as it is"}
    newest = dict(texts)
    for _ in range(3):  # JSON in JSON in a database
        undone = [(unescaped(text), f"{how}, unescaped") for text, how in newest.items()]
        undone += [(urllib.parse.unquote_plus(text), f"{how}, unquoted") for text, how in newest.items()]
        newest = {text: how for text, how in undone if text not in texts}
        texts.update(newest)
    return texts, [(word, plain) for word in _words(data) for plain in _decoded(word)]


def _words(data: bytes) -> set[bytes]:
    return set(re.findall(rb"[A-Za-z0-9+/_-]{8,}", data))


def _decoded(word: bytes) -> Iterator[bytes]:
    """From each of four places on, for nobody says where it begins."""
    plain = word.replace(b"-", b"+").replace(b"_", b"/")
    for start in range(4):
        part = plain[start:]
        part = part[:-1] if len(part) % 4 == 1 else part
        yield binascii.a2b_base64(part + b"==")


def unescaped(text: str) -> str:
    """`\\u00e9`, `\\xe9`, `\\xc3\\xa9`, `\\"`, `\\/` and `\\\\` as what they stand for."""
    text = re.sub(r"\\xc3\\x([89ab][0-9a-f])", lambda m: bytes([0xC3, int(m[1], 16)]).decode(), text)
    text = re.sub(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-f]{2})", lambda m: chr(int(m[1] or m[2], 16)), text)
    return re.sub(r"\\(.)", r"\1", text)
