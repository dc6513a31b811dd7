"""Which names hold secrets, and what is shown instead of their values (rule 13)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

HIDDEN = "<redacted>"
SECRET_ENDINGS = ("_TOKEN", "_KEY", "_SECRET", "PASSWORD", "_PASSWD", "PASSPHRASE")
"""Also the whole of a name, without its first dash: `token`, `secret` and `passwd`, but not `key`."""
SECRET_NAMES = (
    *(f"*{ending}" for ending in SECRET_ENDINGS),
    *("*_PASS", "*_PWD", "APIKEY", "*_APIKEY", "*API_KEYS"),
    *("TOKEN", "SECRET", "PASSWD", "*AUTHORIZATION", "*CREDENTIALS*", "AWS_*"),
)
NO_SECRETS = (
    # Amazon's names of places and settings. Every other name that begins with AWS_ is taken for a secret.
    *(
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_DEFAULT_OUTPUT",
        "AWS_ENDPOINT_URL*",
    ),
    *("AWS_*_FILE", "AWS_CA_BUNDLE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"),
    *("AWS_EC2_METADATA_*", "AWS_STS_REGIONAL_ENDPOINTS", "AWS_SDK_LOAD_CONFIG", "AWS_USE_*_ENDPOINT", "AWS_PAGER"),
    *("*CREDENTIALS*_FILE", "*CREDENTIALS*_PATH", "*CREDENTIALS*_DIR", "ALLOW_CREDENTIALS"),
    # What a token costs, and what sorts and finds.
    *("*_PER_TOKEN", "*_PER_OUTPUT_TOKEN", "PER_TOKEN", "*FIRST_TOKEN", "NEXT_TOKEN", "LAST_TOKEN"),
    *("MAX_TOKEN", "MAX_NEW_TOKEN", "NUM_TOKEN"),
    *("OLD_PWD", "SORT_KEY", "PRIMARY_KEY", "PARTITION_KEY", "CACHE_KEY", "*PUBLIC_KEY"),
    # The special tokens of a tokenizer are words of the model.
    *("BOS_TOKEN", "EOS_TOKEN", "PAD_TOKEN", "UNK_TOKEN", "SEP_TOKEN", "CLS_TOKEN", "MASK_TOKEN"),
    *("IMAGE_TOKEN", "VIDEO_TOKEN", "AUDIO_TOKEN", "START_TOKEN", "STOP_TOKEN", "END_TOKEN"),
    *("*_START_TOKEN", "*_END_TOKEN"),
)
"""Names of those shapes that hold none."""

LONGEST = 200
"""Of a name, the end of a longer one counts: what a log calls something is kept in memory for the next time."""

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTER = re.compile(r"[^A-Za-z0-9]+")
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")


def is_secret(name: str) -> bool:
    """Is the value of this variable, flag or key a secret by its name? `--max-num-batched-tokens` is none.

    In any spelling: `HF_TOKEN`, `--hf-token`, `hfToken` and `extra.hf_token` are one.
    """
    return _is_secret(name[-LONGEST:])


@lru_cache(4096)
def _is_secret(name: str) -> bool:
    if any(map(str.isspace, name)):
        return False  # a sentence that happens to end like that
    plain = _NO_LETTER.sub("_", _CAPITAL.sub("_", name)).strip("_").upper()
    if any(fnmatchcase(plain, shape) for shape in NO_SECRETS):
        return False
    return any(fnmatchcase(plain, shape) for shape in SECRET_NAMES)


def holds_secret(name: str, value: object) -> bool:
    """Is it a secret that stands under this name? Nothing, a switch and what is hidden already is none, and neither is a
    mapping or a list: its leaves are.

    The file that a `…CREDENTIALS` variable names is where the secret is, not the secret.
    """
    if not is_secret(name) or value is None or isinstance(value, bool | Mapping | list | tuple):
        return False
    text = str(value)
    return text != "" and not text.startswith("<") and not is_reference(name, text)


def is_flag(word: object) -> bool:
    """A word of an argument vector that ends the values of the flag before it: `--api-key`, `-e`, `--port=8000`."""
    return isinstance(word, str) and _FLAG.fullmatch(word.partition("=")[0]) is not None


def is_reference(name: str, value: str) -> bool:
    """`GOOGLE_APPLICATION_CREDENTIALS: /run/gcp.json` says where the secret is."""
    return "CREDENTIALS" in name.upper() and value.startswith("/") and "\n" not in value
