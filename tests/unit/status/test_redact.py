"""Secret values in every form in which an engine may write them."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from sparkd.base.redact import Redactor, last_words, log_line
from sparkd.model.action import AskSanity, SendCanary
from sparkd.model.config import Deployment
from sparkd.model.hiding import BY_NAME
from sparkd.model.sanity import Said
from sparkd.model.secret import HIDDEN, is_secret
from sparkd.model.secret_text import hidden
from sparkd.model.snapshot import Canary, Outcome
from sparkd.model.spellings import spellings


def redactor(folder: Path, value: str) -> Redactor:
    (folder / "secret").write_text(value + "\n")
    return Redactor.of(Deployment(name="ds4", engine="vllm", nodes=("spark1",), secrets={"X": str(folder / "secret")}))


@pytest.mark.parametrize("value", ["hf_abcdefgh", "pa\"ss\\wo'rd/with+odd=parts&more", "pässwörd-ñ", "trailing-space "])
def test_no_spelling_of_a_secret_is_shown(value: str, tmp_path: Path) -> None:
    hide = redactor(tmp_path, value)
    kept = value.strip()
    for spelt in (kept, json.dumps({"token": kept}), repr({"token": kept}), f"https://x/?token={quote(kept, safe='')}"):
        shown = hide(f"before {spelt} after")
        assert "<redacted>" in shown
        assert kept not in shown
        assert shown.startswith("before ")
        assert shown.endswith(" after")
    assert kept not in json.dumps(hide.tree({"Env": [f"HF_TOKEN={kept}"], "Cmd": ["--key", kept]}), ensure_ascii=False)


def test_a_secret_of_several_lines_is_hidden_line_by_line(tmp_path: Path) -> None:
    """A log comes line by line."""
    hide = redactor(tmp_path, "-----BEGIN KEY-----\nc2VjcmV0IG9uZQ==\nc2VjcmV0IHR3bw==\n-----END KEY-----")
    assert hide("read c2VjcmV0IHR3bw== from it") == "read <redacted> from it"


def test_a_secret_that_cannot_be_read_hides_nothing(tmp_path: Path) -> None:
    deployment = Deployment(name="ds4", engine="vllm", nodes=("spark1",), secrets={"X": str(tmp_path / "none")})
    assert Redactor.of(deployment)("as it is") == "as it is"


# ----------------------------------------------------------------------------------------------------- names and places

SECRETS_BY_NAME = (
    *(
        "HF_TOKEN",
        "VLLM_API_KEY",
        "X_SECRET",
        "PASSWORD",
        "PGPASSWORD",
        "DB_PASSWD",
        "MYSQL_PWD",
        "smtp_pass",
        "GCP_CREDENTIALS_JSON",
        "CREDENTIALS",
    ),
    *(
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "--api-key",
        "apiKey",
        "extra.hf_token",
        "token",
        "password",
        "credentials",
        "passphrase",
        "API_KEYS",
    ),
)
NO_SECRETS_BY_NAME = (
    *(
        "max-num-batched-tokens",
        "tokenizer",
        "max_tokens",
        "monkey",
        "kv_connector",
        "NCCL_IB_PKEY",
        "token_type",
        "key",
    ),
    *("SSH_KEY_PATH", "HF_TOKEN_FILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SHARED_CREDENTIALS_FILE", "eos_token"),
    *("time_per_output_token", "time-to-first-token", "sort_key", "ssh_public_key", "tool_call_start_token"),
    *("allow-credentials", "why there is no key", ""),
)


@pytest.mark.parametrize("name", SECRETS_BY_NAME)
def test_what_stands_under_the_name_of_a_secret_is_hidden(name: str) -> None:
    assert is_secret(name)
    assert BY_NAME.tree({name: "abc", "b": [{name: ["abc", "d"]}, {name: {"x": "abc"}}]}) == {
        name: HIDDEN,
        "b": [{name: HIDDEN}, {name: {"x": HIDDEN}}],
    }
    assert BY_NAME.tree([f"{name}=a b c"]) == [f"{name}={HIDDEN}"]
    assert BY_NAME.text(f'x {name}=abc, {{"{name}": "abc"}}') == f'x {name}={HIDDEN}, {{"{name}": "{HIDDEN}"}}'


@pytest.mark.parametrize("name", NO_SECRETS_BY_NAME)
def test_and_nothing_else(name: str) -> None:
    assert not is_secret(name)
    tree = {name: "abc", "words": [f"--{name}", "abc", f"--{name}=abc", f"{name}=abc"]}
    assert BY_NAME.tree(tree) == tree
    assert BY_NAME.text(f"{name}=abc --{name} abc") == f"{name}=abc --{name} abc"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("export HF_TOKEN='a b'; run", f"export HF_TOKEN='{HIDDEN}'; run"),
        ("--api-key abc --port 80", f"--api-key {HIDDEN} --port 80"),
        ("docker run --env=HF_TOKEN=abc x", f"docker run --env=HF_TOKEN={HIDDEN} x"),
        ("{'api_key': ['abc'], 'x': 1}", f"{{'api_key': [{HIDDEN}], 'x': 1}}"),
        ('"{\\"api_key\\": \\"a b\\"}"', f'"{{\\"api_key\\": \\"{HIDDEN}\\"}}"'),
        ("['vllm', '--api-key', 'abc']", f"['vllm', '--api-key', '{HIDDEN}']"),
        ("postgres://u:p@ss@db/x", f"postgres://u:{HIDDEN}@db/x"),
        ("redis://:a/b@h:1", f"redis://:{HIDDEN}@h:1"),
        ("GET /x?token=abc&b=1", f"GET /x?token={HIDDEN}&b=1"),
        ("Authorization: Basic dTpw", f"Authorization: {HIDDEN}"),
        ("sent Bearer abcdef0123456789", f"sent Bearer {HIDDEN}"),
        ("host=db password=abc user=u", f"host=db password={HIDDEN} user=u"),
        ("Password: abc", f"Password: {HIDDEN}"),
        ("hfToken: abc", f"hfToken: {HIDDEN}"),
        ("'--api-key': 'abc'", f"'--api-key': '{HIDDEN}'"),
        ("(b'x-api-key', b'abc')", f"(b'x-api-key', b'{HIDDEN}')"),
        ("os.environ['HF_TOKEN'] = 'abc'", f"os.environ['HF_TOKEN'] = '{HIDDEN}'"),
        ("api_key=SecretStr('abc')", f"api_key=SecretStr('{HIDDEN}')"),
        ("--api-key \\\n  abc", f"--api-key \\\n  {HIDDEN}"),
        ('"api_key":\n  "abc"', f'"api_key":\n  "{HIDDEN}"'),
        ("api_key={'a': 'abc'}", f"api_key={{{HIDDEN}}}"),
        ("https%3A%2F%2Fu%3Aabc%40h", f"https%3A%2F%2Fu%3A{HIDDEN}%40h"),
        ("https%253A%252F%252Fu%253Aabc%2540h", f"https%253A%252F%252Fu%253A{HIDDEN}%2540h"),
        ("https:\\/\\/u:abc@h", f"https:\\/\\/u:{HIDDEN}@h"),
        ("http://p/?to=http://u:abc@h", f"http://p/?to=http://u:{HIDDEN}@h"),
        ("hf_token%22%3A%22abc%22", f"hf_token%22%3A%22{HIDDEN}%22"),
        ("&quot;hf_token&quot;: &quot;abc&quot;", f"&quot;hf_token&quot;: &quot;{HIDDEN}&quot;"),
        ("password\\u003dabc", f"password\\u003d{HIDDEN}"),
    ],
)
def test_a_place_tells_a_secret_that_nobody_knows(text: str, shown: str) -> None:
    assert BY_NAME.text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN is not set",
        "error: argument --api-key: expected one argument",
        "http://10.0.0.1:8000/v1@x",
        "{'api_key': None, 'hf_token': False}",
        "Basic authentication, Bearer tokens",
        "secrets: {HF_TOKEN: {file: /etc/sparkd/hf_token}}",
        "secrets:\n  HF_TOKEN:\n    file: /etc/sparkd/hf_token\n",
        "HF_TOKEN=<from /etc/sparkd/hf_token>",
        "GOOGLE_APPLICATION_CREDENTIALS=/run/gcp.json",
        "one token: four characters",
        'bash -c "vllm serve --api-key $VLLM_API_KEY"',
        "export HF_TOKEN=${HF_TOKEN} HF_TOKEN=$(cat /run/secrets/hf) run",
        "100%25 &#01;&#x7f; %zz \\/ token",
        "('tokenizer', 'abc')",
    ],
)
def test_prose_and_references_are_shown(text: str) -> None:
    assert BY_NAME.text(text) == text
    assert BY_NAME.tree([text]) == [text]


@pytest.mark.parametrize(
    "part",
    [
        *(
            "://a:",
            "://u:1/",
            "a:",
            "credentials",
            "acredentials.",
            "a_credentials-",
            "aws_",
            "token",
            "token ",
            "token=",
        ),
        *(
            "token='",
            'token="',
            "token=[",
            "token={",
            "token=(",
            "('token',",
            "token\\",
            "\\",
            "%25",
            "%",
            "&amp;",
            "-",
            ". ",
        ),
        *("authorization: ", "authorization: a", "Basic aaaaaaaa", "@", " ", "token\n", "\\u00"),
    ],
)
def test_a_text_of_anybodys_choosing_is_looked_through_once(part: str) -> None:
    """Twice the text takes twice the time, not four times: 50 kB of some of these took half a minute."""
    seconds = []
    for length in (50_000, 400_000):
        text = "token=" + part * (length // len(part))
        began = time.process_time()
        BY_NAME.text(text)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 24 * seconds[0] + 0.5


def test_an_argument_vector_hides_the_words_of_a_flag_up_to_the_next() -> None:
    words = ["vllm", "serve", "--api-key", "one", "two", "--port", "8000", "--admin-key=x y", "-e", "HF_TOKEN=z"]
    shown = ["vllm", "serve", "--api-key", HIDDEN, HIDDEN, "--port", "8000", f"--admin-key={HIDDEN}", "-e"]
    assert BY_NAME.tree(words) == [*shown, f"HF_TOKEN={HIDDEN}"]
    assert BY_NAME.tree(tuple(words)) == (*shown, f"HF_TOKEN={HIDDEN}")
    assert BY_NAME.tree({"env": [{"name": "HF_TOKEN", "value": "z"}]}) == {
        "env": [{"name": "HF_TOKEN", "value": HIDDEN}]
    }


# ------------------------------------------------------------------------------------------------------ in every spelling

ODD = ('p"l\\a/n+t%e d é', "pla'nted<&>$x`y`=:@?#[]", "plain0123456789", "ñandú\u0301")


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
def test_no_alignment_of_base64_hides_a_secret_from_us(value: str, before: str, tmp_path: Path) -> None:
    hide = redactor(tmp_path, value)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(f"{before}{value}:and more".encode()).decode()
        shown = hide(f"got {text}.")
        left = [part for part in re.split("[ .]|" + HIDDEN, shown) if part]
        assert HIDDEN in shown
        assert sum(map(len, left)) <= len(text) - len(value.encode()) * 4 // 3 + 8
        assert hide(f"x {encode(value.encode()).decode().rstrip('=')} y") == f"x {HIDDEN} y"


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize(
    "spell",
    [
        lambda value: quote(value, safe=""),
        quote,
        quote_plus,
        lambda value: re.sub("%..", lambda found: found[0].lower(), quote(value, safe="")),
        lambda value: quote(quote(value, safe=""), safe=""),
        lambda value: json.dumps(value).replace("/", "\\/")[1:-1],
        lambda value: json.dumps(json.dumps(value))[3:-3],
        lambda value: re.sub(r"\\u....", lambda found: "\\u" + found[0][2:].upper(), json.dumps(value))[1:-1],
        lambda value: repr(value)[1:-1],
        lambda value: ascii(value)[1:-1],
        lambda value: repr(value.encode())[2:-1],
        lambda value: shlex.quote(value).strip("'"),
        html.escape,
        lambda value: value.encode().hex(),
        lambda value: unicodedata.normalize("NFD", value),
        lambda value: unicodedata.normalize("NFC", value),
    ],
)
def test_each_writer_is_known(value: str, spell: Callable[[str], str], tmp_path: Path) -> None:
    assert redactor(tmp_path, value)(f"before {spell(value)} after") == f"before {HIDDEN} after"


def test_the_forms_of_a_secret_are_bounded() -> None:
    """A log of a megabyte is looked through as often as there are forms."""
    assert max(len(spellings([value])) for value in ODD) < 200
    assert len(spellings(["plain0123456789"])) < 15


def test_half_of_a_secret_is_none_at_a_cut(tmp_path: Path) -> None:
    hide = redactor(tmp_path, "plain0123456789")
    assert hide("it says plain012345...") == f"it says {HIDDEN}..."
    assert hide("0123456789 is what it says") == f"{HIDDEN} is what it says"
    assert hide("plainly 0123 is shown") == "plainly 0123 is shown"


def test_a_secret_that_was_changed_is_still_that_of_the_ranks_that_run(tmp_path: Path) -> None:
    redactor(tmp_path, "the-old-value")
    hide = redactor(tmp_path, "the-new-value")
    assert hide("the-old-value, the-new-value") == f"{HIDDEN}, {HIDDEN}"
    (tmp_path / "secret").unlink()
    deployment = Deployment(name="d", engine="vllm", nodes=("a",), secrets={"X": str(tmp_path / "secret")})
    assert Redactor.of(deployment)("the-new-value") == HIDDEN


def test_a_variable_under_secrets_is_one_whatever_it_is_called(tmp_path: Path) -> None:
    assert redactor(tmp_path, "abc").tree({"Env": ["X=abc", "Y=abc"]}) == {"Env": [f"X={HIDDEN}", "Y=abc"]}


# ------------------------------------------------------------------------------------------------------- outcomes and logs


def test_what_an_engine_says_in_its_error_goes_nowhere(tmp_path: Path) -> None:
    hide = redactor(tmp_path, "plain0123456789")
    canary = Canary(1, 0.0, 1.0, ok=False, why="HTTP 500: plain0123456789 is wrong")
    shown = hide.outcome(Outcome(SendCanary(1, 3.0), False, 1.0, "said plain0123456789", value=canary))
    assert "plain" not in repr(shown)
    assert isinstance(shown.value, Canary)
    assert shown.value.generation == 1


def test_what_an_engine_answers_goes_nowhere_with_a_secret_in_it(tmp_path: Path) -> None:
    said = Said("it is plain0123456789.", "plain0123456789 then", cut=True)
    canary = Canary(1, 0.0, 1.0, ok=True, said=said)
    shown = redactor(tmp_path, "plain0123456789").outcome(Outcome(AskSanity(1, 3.0), True, 1.0, value=canary))
    assert isinstance(shown.value, Canary)
    assert shown.value.said == Said(f"it is {HIDDEN}.", f"{HIDDEN} then", cut=True)


def test_every_line_of_the_log_and_the_last_words_of_a_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    redactor(tmp_path, "plain0123456789")
    fields = {"event": "odd plain0123456789", "why": ValueError("plain0123456789"), "n": 1, "api_key": "abc", "x": None}
    assert log_line(None, "", fields) == {
        "event": f"odd {HIDDEN}",
        "why": HIDDEN,
        "n": 1,
        "api_key": HIDDEN,
        "x": None,
    }
    try:
        raise ValueError("plain0123456789")
    except ValueError as error:
        last_words(type(error), error, error.__traceback__)
    said = capsys.readouterr().err
    assert f"ValueError: {HIDDEN}" in said
    assert "plain0123456789" not in said


LINE = 1 << 16
"""The longest line of a log that is shown."""


@pytest.mark.parametrize(
    "again",
    ["://a:", "://a:@", "://:1/", "api_key=", "a_credentials=/", "credentials", "x_token ", "x_key='", "x_key=("],
)
def test_the_longest_line_costs_what_its_length_says(again: str) -> None:
    """Sixty-four KiB of `://a:` in a log held up the loop for 14 s, each time that somebody read it."""
    seconds = [timed(again * (size // len(again))) for size in (LINE // 16, LINE)]
    assert seconds[1] < 64 * seconds[0] + 0.01, "in sixteen times the length sixteen times the work, not 256 times"


def test_blanks_after_a_name_are_gone_through_once() -> None:
    seconds = [timed("api_key" + " " * size) for size in (LINE // 16, LINE)]
    assert seconds[1] < 64 * seconds[0] + 0.01


def timed(text: str) -> float:
    """Process time of the fastest of three, in seconds."""
    found = []
    for _ in range(3):
        began = time.process_time()
        hidden(text)
        found.append(time.process_time() - began)
    return min(found)
