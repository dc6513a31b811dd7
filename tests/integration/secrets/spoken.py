"""What a talkative engine makes of a secret: each line is one way in which programs have been seen to print one.

Written apart from what hides them, with other tools where there are any: a form that both sides forget would prove nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
import urllib.parse


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
    found = []
    as_it_is = data.decode("utf-8", "replace")
    texts = {"as it is": as_it_is, "as a shell's word": as_it_is.replace("'\"'\"'", "'")}
    for _ in range(3):  # JSON in JSON in a database
        last = list(texts.items())
        for how, text in last:
            texts[f"{how}, unescaped"] = unescaped(text)
            texts[f"{how}, unquoted"] = urllib.parse.unquote_plus(text)
        if len(texts) > 20:
            break
    found += [how for how, text in texts.items() if secret in text]
    for word in re.findall(rb"[A-Za-z0-9+/_-]{8,}", data):
        plain = word.replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):
            part = plain[start:]
            part = part[:-1] if len(part) % 4 == 1 else part
            if secret.encode() in binascii.a2b_base64(part + b"=="):
                found.append(f"in base64: {word.decode()}")
    return found


def unescaped(text: str) -> str:
    """`\\u00e9`, `\\xe9`, `\\xc3\\xa9`, `\\"`, `\\/` and `\\\\` as what they stand for."""
    text = re.sub(r"\\xc3\\x([89ab][0-9a-f])", lambda m: bytes([0xC3, int(m[1], 16)]).decode(), text)
    text = re.sub(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-f]{2})", lambda m: chr(int(m[1] or m[2], 16)), text)
    return re.sub(r"\\(.)", r"\1", text)
