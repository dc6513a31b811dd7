"""Scripts are followed as bash, ssh and docker would pass their words on; the judge is a real bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layers import stand_ins, what_vllm_gets

from sparkd.commandline.scope import Scope
from sparkd.commandline.shell import commands
from sparkd.drift import Severity, compare
from sparkd.drift.argv import read_argv
from sparkd.engines.tables import shipped
from sparkd.importers.read import NotReadable, read_side

GOOD = 'vllm serve /m --compilation-config \'{"cudagraph_mode":"FULL_AND_PIECEWISE","custom_ops":["all"]}\''


def write(folder: Path, text: str, name: str = "start.sh") -> Path:
    file = folder / name
    file.write_text(text)
    return file


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return stand_ins(tmp_path / "tools")


SCRIPTS = {
    "plain": GOOD,
    "continued": "vllm serve /m \\\n  --port 8000 \\\n  --enforce-eager",
    "comments": "# vllm serve /no\nvllm serve /m --port 8000 # --enforce-eager\n",
    "variables": 'M=/m\nexport T_A="x y"\nT_NOT=1\nvllm serve $M --port ${PORT:-8000} --seed "${S-3}" --load-format ${L:+no}auto',
    "prefix": "T_A=1 T_B='2 3' vllm serve /m",
    "words": 'F="--port 8000  --seed 3"\nvllm serve /m $F --served-model-name "$F"',
    "arrays": 'A=(--port 8000)\nA+=(--served-model-name "a b" \'c\' # named\n)\nvllm serve /m "${A[@]}"',
    "array in a text": 'A=(--port 8000)\nbash -c "vllm serve /m ${A[*]}"',
    "empty array": 'A=()\nvllm serve /m "${A[@]}" --chat-template "${A[*]}"',
    "positional": 'set -- /m 8000\nvllm serve "$1" --port $2',
    "case": 'M=/no\ncase "$X" in\n  (a) M=/x ;;\n  b|c) M=/y\n    ;;\n  *) M=/m ;;\nesac\nvllm serve $M',
    "while": 'while [[ $# -gt 0 ]]; do\n  case "$1" in --x) shift ;; esac\ndone\nvllm serve /m',
    "test": "[[ -n $X && ( a < b ) ]] || vllm serve /m",
    "process substitution": "cat <(echo 'vllm serve /no') >/dev/null; vllm serve /m",
    "here-string": "bash <<< 'vllm serve /m --port 8000'",
    "group": "{ cd /tmp; vllm serve /m; } 2>&1",
    "subshell": "(export T_A=1; vllm serve /m)",
    "added": 'A=/m\nA+="/x"\nvllm serve $A',
    "braces": "vllm serve /m --served-model-name {a,b}c x{1,{2,3}}",
    "escapes": "vllm serve /m --served-model-name a\\ b \"c\\\"d\\$e\\f\" $'g\\th' 'i\\j'",
    "bash -c": "export T_A=1\nT_B=2\nbash -c 'vllm serve /m --port 8000'",
    "bash -c with words": "bash -c 'vllm serve \"$1\" --port $2' name '/m' 8000",
    "bash -lc double": 'P=8000\nbash -c "vllm serve /m --port $P --chat-template \\"a b\\""',
    "here-document": "bash <<EOF\nvllm serve /m --port ${P:-8000} \\\n --seed 3\nEOF",
    "here-document literal": "T_X=1 bash -s <<'EOF'\nX=5\nvllm serve /m --seed $X\nEOF",
    "here-document tabs": "if true; then\n\tcat <<-END >/dev/null\n\tvllm serve /no\n\tEND\n\tvllm serve /m\nfi",
    "env": "T_A=0 env T_A=1 T_B=2 nohup vllm serve /m",
    "sudo": "export T_A=1\nsudo T_B=2 vllm serve /m",
    "exec": "exec vllm serve /m --port 8000",
    "set -a": "set -a\nT_A=1\nset +a\nT_B=2\nvllm serve /m",
    "unset": "export T_A=1 T_B=2\nunset T_A\nvllm serve /m",
    "bash keyword": 'function run {\n  local S=$1\n  vllm serve /m --seed $S "$2"\n}\nif true; then run 3 --enforce-eager; fi',
    "function": 'run() {\n  vllm serve /m --port "$P"\n}\nP=8000\nrun',
    "if": 'if [ -n "$UNSET" ]; then\n  echo none\nfi\nvllm serve /m && echo done',
    "pipe": "vllm serve /m --port 8000 2>&1 | cat",
    "eval": "C='vllm serve /m --chat-template \"a b\"'\neval $C",
    "docker exec": "export T_A=1\ndocker exec -e T_B='x y' -d box vllm serve /m --port 8000",
    "docker exec bash": "docker exec box bash -c \"vllm serve /m --chat-template 'a b'\"",
    "ssh": "export T_A=1\nssh -q milo@node vllm serve /m --chat-template 'a b'",
    "ssh quoted": "X=3\nssh node \"T_A=1 vllm serve /m --seed $X --chat-template 'a b'\"",
    "ssh here-document": "ssh node <<'EOF'\nexport T_A=1\nvllm serve /m\nEOF",
    "ssh docker": "ssh node docker exec -e T_A=1 box vllm serve /m --port 8000",
    "ssh docker bash": "ssh node \"docker exec box bash -c 'vllm serve /m --port 8000'\"",
    "json in ssh": "ssh node " + GOOD,
    "json in bash": 'bash -c "' + GOOD.replace("'", "") + '"',
    "json in ssh docker bash": "ssh node \"docker exec box bash -c 'vllm serve /m "
    '-cc {\\"mode\\":3,\\"custom_ops\\":[\\"all\\"]}\'"',
    "json with blanks": 'ssh node vllm serve /m -cc \'{"cudagraph_mode": "FULL"}\'',
    "json whole": "ssh node " + repr(GOOD.replace("'", "'\\''"))[0] + GOOD.replace("'", "'\\''") + "'",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_rank_gets_what_a_real_bash_gives_it(name: str, tmp_path: Path, tools: Path) -> None:
    script = write(tmp_path, SCRIPTS[name])
    real = what_vllm_gets(script, tools)
    argv = real["argv"]
    assert isinstance(argv, list)
    wanted = read_argv([str(word) for word in argv[1:]], shipped("vllm"))
    (form,) = read_side(script).ranks
    assert (form.model, form.flags) == (wanted.model, wanted.flags)
    assert {key: value for key, value in form.env.items() if key.startswith("T_")} == real["env"]


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name.startswith("json in")])
def test_quotes_that_layers_of_shells_ate_are_recognised(name: str, tmp_path: Path) -> None:
    good, bad = read_side(write(tmp_path, GOOD, "good.sh")), read_side(write(tmp_path, SCRIPTS[name]))
    (found,) = compare(good, bad)
    assert (found.severity, found.name) == (Severity.BREAKS, "--compilation-config")
    assert "quotes of its JSON were eaten by a shell" in str(found.why)


def test_json_that_was_quoted_for_every_layer_arrives(tmp_path: Path) -> None:
    good, same = read_side(write(tmp_path, GOOD, "good.sh")), read_side(write(tmp_path, SCRIPTS["json whole"]))
    assert compare(good, same) == ()


_QUOTED = ("'x y'", '"x y"', "'\"'", '"\'"', "''", '""', "$'\\t'", "\\ ", "\\'", '\\"', '"\\$V"', "'$V'")
_EXPANDED = ('"$V"', "${V}", "${W}", '"$W"', "{a,b}", "${N:-d}", '"${N:-d e}"', "{", "}")
_FRAGMENT = st.sampled_from((*"abc_-=:[]/., ", *_QUOTED, *_EXPANDED))


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(_FRAGMENT, min_size=1, max_size=6).map("".join), min_size=1, max_size=5))
def test_words_are_made_as_bash_makes_them(tmp_path: Path, words: list[str]) -> None:
    line = "V=v W='p  q '\nprintf '%s\\0' x " + " ".join(words)
    script = write(tmp_path, line)
    ran = subprocess.run(["bash", "-f", str(script)], capture_output=True, text=True, timeout=30, check=True)
    scope = Scope()
    sets, command = commands(line)
    for one in sets.assignments:
        scope.assign(one, lambda *_: None)
    ours = [text for word in command.words[2:] for text in scope.fields(word, lambda *_: None)]
    assert ours == ran.stdout.split("\0")[:-1]


# --------------------------------------------------------------------------------------------- what cannot be known


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("vllm serve /m --max-model-len $LEN", 1, "$LEN is not set in this file"),
        ("\nvllm serve /m --max-model-len $(cat len)", 2, "$(cat len) is known only where it runs"),
        ("L=${X%%.*}\nvllm serve /m --max-model-len $L", 1, "${X%%.*} is no expansion that is followed here"),
        ("vllm serve /m $MORE", 1, "$MORE is not known, and may hold flags"),
        ("vllm serve /m\n$RUN other", 2, "$RUN is not known, and neither is what it runs"),
        ("source ./more.sh\nvllm serve /m", 1, "./more.sh is not at hand"),
        ("bash /workspace/gone.sh\nvllm serve /m", 1, "/workspace/gone.sh is not at hand"),
        ('eval "$(tool hook)"\nvllm serve /m', 1, "what `eval` gets is known only where it runs"),
        ("vllm serve /m --config x.yaml", 1, "flags come from x.yaml, which is not read"),
        ("docker run --env-file e.env img vllm serve /m", 1, "the variables in e.env are not read"),
        ("L=1\nif x; then\n  L=2\nfi\nvllm serve /m --seed $L", 3, "L is set again inside `if`"),
        ("vllm serve /m\nvllm serve /other", 1, "starts rank 0 more than once"),
        ("bash -c vllm serve /m\nvllm serve /m", 1, "`bash -c` runs `vllm` alone"),
        ("vllm serve /m\necho 'open", 2, "a ' is never closed"),
    ],
)
def test_what_cannot_be_resolved_is_unknown_with_its_line(text: str, line: int, why: str, tmp_path: Path) -> None:
    script = write(tmp_path, text)
    if "never closed" in why:
        with pytest.raises(NotReadable, match=f"start.sh:{line}.*never closed"):
            read_side(script)
        return
    side = read_side(script)
    (gap,) = [gap for gap in side.gaps if why in gap.why]
    assert gap.where == f"{script}:{line}"
    plain = read_side(write(tmp_path, "vllm serve /m", "plain.sh"))
    told = [one for one in compare(plain, side) if why in str(one.why)]
    assert [one.severity for one in told] == [Severity.UNKNOWN]
    assert f":{line}" in told[0].name or f":{line}" in str(told[0].why)


def test_nothing_of_a_script_is_executed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = f"touch {trace}\nX=$(touch {trace})\nY=`touch {trace}`\neval touch {trace}\nbash -c 'touch {trace}'\nvllm serve /m $X $Y"
    read_side(write(tmp_path, text))
    assert not trace.exists()


def test_a_script_that_calls_itself_ends(tmp_path: Path) -> None:
    write(tmp_path, "bash other.sh\nvllm serve /m")
    write(tmp_path, "bash start.sh", "other.sh")
    side = read_side(tmp_path / "start.sh")
    assert side.ranks[0].model == "/m"


def test_loops_and_braces_without_end_are_given_up(tmp_path: Path) -> None:
    loop = "for i in 1 2 3 4 5 6 7 8 9; do\n" * 5 + "echo $i\n" + "done\n" * 5 + "f() { f; }\nf\n"
    side = read_side(write(tmp_path, "vllm serve /m\n" + loop + "echo " + "{a,b}" * 40))
    assert any("commands are followed" in gap.why for gap in side.gaps)


@pytest.mark.parametrize(
    "text",
    [
        "su - x -c 'vllm serve /m'",
        "uv run vllm serve /m",
        "tmux new-session -d 'vllm serve /m'",
        "alias v='vllm serve /m'\nv",
        "systemd-run --unit x /opt/venv/bin/vllm serve /m",
        "echo /m | xargs vllm serve",
        "services:\n  x:\n    image: vllm/vllm-openai\n    command: [vllm, serve, /m]\n",
    ],
)
def test_what_starts_an_engine_in_another_way_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match=r"is not followed|docker compose"):
        read_side(write(tmp_path, text))
    if "services" not in text:  # beside a rank that was found it may be anything: pkill -f 'vllm serve'
        assert read_side(write(tmp_path, f"{text}\nvllm serve /m")).gaps == ()


WITHOUT_END = {
    "a variable that doubles": "X=aaaaaaaaaa\n" + "X=$X$X\n" * 40 + "Y=$X\n" + "Y+=$Y\n" * 40 + "echo $Y",
    "a list that doubles": "X=(a b)\n" + 'X=("${X[@]}" "${X[@]}")\n' * 30,
    "words that double": "set -- a b\n" + 'set -- "$@" "$@"\n' * 30,
    "loops around nothing": "for a in 1 2 3 4 5 6 7 8 9; do " * 12 + ":" + "; done" * 12,
    "quotes within quotes": "X=" + '"$(' * 2000 + "a" + ')"' * 2000,
    "defaults within defaults": "X=" + "${A:-" * 2000 + "a" + "}" * 2000,
    "braces within braces": "echo " + "{a," * 1500 + "b" + "}" * 1500,
}


@pytest.mark.parametrize("text", WITHOUT_END.values(), ids=WITHOUT_END)
def test_what_grows_without_end_is_given_up_and_said(text: str, tmp_path: Path) -> None:
    write(tmp_path, text, "other.sh")
    side = read_side(write(tmp_path, "vllm serve /m\nbash other.sh"))
    assert side.ranks[0].model == "/m"
    given_up = ("are left out", "is left out", "is cut off", "commands are followed", "nested too deep")
    assert any(why in gap.why for gap in side.gaps for why in given_up)


@pytest.mark.parametrize(
    "text",
    [
        "shift " + "9" * 5000,
        "shift ²",
        "echo ${²} $99999999999 ${" + "9" * 5000 + "}",
        "docker run --shm-size " + "9" * 5000 + "g img true",
        "docker run --mount 'a\rb\"c' img true",
        "vllm serve /m --max-model-len " + "9" * 5000 + "k --port 1e999999999",
        "vllm serve /m --compilation-config." + "a." * 3000 + "b 1",
    ],
)
def test_numbers_and_names_beyond_reason_are_no_traceback(text: str, tmp_path: Path) -> None:
    script = write(tmp_path, f"{text}\nvllm serve /m")
    assert read_side(script).ranks[0].model == "/m"
    compare(read_side(script), read_side(write(tmp_path, "vllm serve /n", "b.sh")))


@pytest.mark.parametrize("text", ["", "echo hello", "docker run img sleep infinity", "\x00\x01"])
def test_a_file_that_starts_no_engine_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match="starts no engine"):
        read_side(write(tmp_path, text))


_TOKENS = (
    "for in do done if then fi case esac while function f ( ) () { } ;; ; & && || | x=1 $x ${x:-a} ${x[@]} x=( a ) $1 set -- "
    "eval source bash -c docker run exec -e A ssh h sudo env vllm serve --x -cc.a {a,b} << EOF <<< ' \" ` $( \\ # ~"
)
_ODD = st.lists(st.sampled_from([*_TOKENS.split(), "\n"]), max_size=14).map(" ".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(_ODD, st.text(st.sampled_from("'\"$(){}[]<>|&;\\\n `#=!~*abc-"), max_size=60)))
def test_odd_text_never_ends_in_a_traceback(tmp_path: Path, text: str) -> None:
    script = write(tmp_path, f"vllm serve /m\n{text}\n")
    try:
        assert read_side(script).ranks[0].model == "/m"
    except NotReadable as error:
        assert "never closed" in str(error)  # noqa: PT017


# ---------------------------------------------------------------------------------------------------------- docker run


def test_a_quote_that_swallowed_half_a_page_is_no_file_name(tmp_path: Path) -> None:
    script = tmp_path / "notes.sh"
    script.write_text(f"bash './{'a word ' * 60}'\nvllm serve m\n")
    assert len(read_side(script).ranks) == 1


def test_docker_run_says_how_the_container_is_made(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "export HF_TOKEN=x\n"
        "docker run -itd --rm --name=e --gpus=all --ipc host --net=host --shm-size 32g --ulimit memlock=-1 --ulimit=nofile=1:2 \\\n"
        " --device=/dev/infiniband --cap-add CAP_IPC_LOCK --restart unless-stopped -m 64g -u 1000 -w /w/ --init \\\n"
        " -v /a/:/b:ro -v cache:/c --mount type=bind,src=/d,dst=/e,readonly -e A=1 -eB=2 -e HF_TOKEN --security-opt x=y \\\n"
        " img:1 python3 -m vllm.entrypoints.openai.api_server --model /m -tp 2",
    )
    (form,) = read_side(script).ranks
    assert form.image == "img:1"
    assert form.container == {
        "cap_add": ["IPC_LOCK"],
        "devices": ["/dev/infiniband:/dev/infiniband:mrw"],
        "gpus": "all",
        "init": True,
        "ipc": "host",
        "memory": 64 << 30,
        "network": "host",
        "option security-opt": "x=y",
        "restart": "unless-stopped",
        "ulimits": {"memlock": -1, "nofile": "1:2"},
        "user": "1000",
        "workdir": "/w",
    }
    assert form.mounts == {"/b": "/a (read only)", "/c": "cache", "/e": "/d (read only)"}
    assert form.env == {"A": "1", "B": "2", "HF_TOKEN": "x"}
    assert (form.model, form.flags) == ("/m", {"tensor-parallel-size": 2})


def test_a_loop_over_nodes_starts_a_rank_on_each(tmp_path: Path) -> None:
    text = (
        "R=0\nfor n in spark1 spark2; do\n"
        '  ssh milo@$n "docker run -d --name e img:1 sleep infinity"\n'
        '  ssh milo@$n "docker exec e vllm serve /m --nnodes 2 --node-rank ${n#spark}"\ndone\n'
        'for r in "0 spark1" "1 spark2"; do\n  set -- $r\ndone\n'
    )
    side = read_side(write(tmp_path, text))
    assert [form.node for form in side.ranks] == ["spark1"]
    assert side.ranks[0].image == "img:1"
    assert any("${n#spark} is no expansion" in gap.why for gap in side.gaps)


def test_containers_of_one_name_on_two_nodes_are_two(tmp_path: Path) -> None:
    text = "".join(
        f"ssh {node} docker run -d --name e img:{rank} sleep infinity\n"
        f"ssh {node} docker exec e vllm serve /m --nnodes 2 --node-rank {rank}\n"
        for rank, node in enumerate(("spark1", "spark2"))
    )
    side = read_side(write(tmp_path, text))
    assert [(form.rank, form.node, form.image) for form in side.ranks] == [
        (0, "spark1", "img:0"),
        (1, "spark2", "img:1"),
    ]
