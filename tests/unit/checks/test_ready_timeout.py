"""ready-timeout: the engine's own limit of a start against what a start takes, or may take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from check_world import SPARK1, SPARK2, said, scene, trouble

from sparkd.checks import ready_timeout
from sparkd.facts.image import IMAGE, Image
from sparkd.model.config import Start
from sparkd.model.snapshot import Unknown

NAME = "VLLM_ENGINE_READY_TIMEOUT_S"
CHECK = ready_timeout.CHECK


def image(*env: str) -> Any:
    return {IMAGE: dict.fromkeys((SPARK1, SPARK2), Image("sha256:1", "arm64", env))}


def test_f12_its_default_is_below_what_the_file_allows_and_the_value_to_set_is_named() -> None:
    (found,) = trouble(CHECK, scene(image()))
    assert found.node == SPARK1, "the head alone waits for the others"
    assert found.text == (
        f"the engine gives up a start after 10 min ({NAME}, its default), but `start: {{timeout: 2700}}` lets one take 45 min"
    )
    assert found.fix == f'in demo.yaml: `env: {{{NAME}: "2700"}}`'


def test_f15_a_start_that_takes_longer_than_the_engine_waits_is_told_with_its_time() -> None:
    at = replace(scene(image(), start=Start(timeout=900)), longest_start_s=12 * 60.0)
    (found,) = trouble(CHECK, at)
    assert found.text.endswith("but one took 12 min")
    assert found.fix == f'in demo.yaml: `env: {{{NAME}: "900"}}`'


def test_once_starts_are_known_to_be_short_nothing_is_said() -> None:
    assert said(CHECK, replace(scene(image()), longest_start_s=240.0)) == []
    assert len(said(CHECK, replace(scene(image()), longest_start_s=601.0))) == 1


WHERE: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    ({"env": {NAME: "3600"}}, (), ""),
    ({"env": {NAME: "1200"}}, (), "20 min (VLLM_ENGINE_READY_TIMEOUT_S, env)"),
    ({"env": {NAME: "3600"}, "node_env": {SPARK1: {NAME: "60"}}}, (), "1 min (VLLM_ENGINE_READY_TIMEOUT_S, node_env"),
    ({"env": {NAME: "3600"}, "node_env": {SPARK2: {NAME: "60"}}}, (), ""),
    ({}, (f"{NAME}=3600",), ""),
    ({}, (f"{NAME}=700",), "11 min 40 s (VLLM_ENGINE_READY_TIMEOUT_S, set by the image)"),
    ({"env": {NAME: "3600"}}, (f"{NAME}=700",), ""),
    ({"env": {NAME: "soon"}}, (), "is 'soon' (env), which is no number of whole seconds"),
    ({"env": {NAME: "3600.5"}}, (), "is '3600.5' (env), which is no number of whole seconds"),
    ({"start": Start(timeout=600)}, (), ""),
]


@pytest.mark.parametrize(("deployment", "of_image", "words"), WHERE)
def test_the_nearest_value_counts(deployment: dict[str, Any], of_image: tuple[str, ...], words: str) -> None:
    found = said(CHECK, scene(image(*of_image), **deployment))
    assert len(found) == bool(words)
    assert all(words in text for _, _, text in found)


def test_what_an_unread_image_sets_is_not_guessed() -> None:
    unread: Any = {IMAGE: dict.fromkeys((SPARK1, SPARK2), Unknown("mute", 0.0))}
    assert said(CHECK, scene(unread)) == []
    assert len(said(CHECK, scene(unread, env={NAME: "30"}))) == 1


def test_ranks_without_an_image_have_the_default() -> None:
    assert len(said(CHECK, scene(image=None, runtime="process"))) == 1


def test_an_engine_without_such_a_limit_is_left_alone() -> None:
    assert not CHECK.applies(scene(engine="unheard-of").deployment)
