"""Where a bug of ours ends: in the log, and in nothing else."""

from __future__ import annotations

import time

import anyio
import pytest
import structlog

from sparkd.base.guarded import HINT, guarded, guarded_call


async def broken() -> str:
    raise KeyError("bug")


async def well() -> str:
    await anyio.sleep(0)
    return "done"


async def test_a_bug_is_logged_with_its_trace_and_ends_no_group() -> None:
    with structlog.testing.capture_logs() as logged:
        async with anyio.create_task_group() as group:
            group.start_soon(guarded, broken, "asking", "demo")
            assert await guarded(well, "asking") == "done"
    (line,) = logged
    assert (line["event"], line["deployment"], line["hint"]) == ("asking failed", "demo", HINT)
    assert (line["log_level"], line["exc_info"]) == ("error", True)


async def test_work_that_cannot_even_begin_is_guarded_as_well() -> None:
    """What it works with is looked up within the guard, not before it."""
    with structlog.testing.capture_logs() as logged:
        hands: dict[str, str] = {}
        await guarded(lambda: anyio.sleep(float(hands["gone"])), "action")
    assert [line["event"] for line in logged] == ["action failed"]


async def test_cancellation_gets_out() -> None:
    with structlog.testing.capture_logs() as logged, anyio.CancelScope() as scope:
        scope.cancel()
        await guarded(anyio.sleep_forever, "asking")
        pytest.fail("it went on after it was cancelled")
    assert scope.cancelled_caught
    assert logged == []


def test_the_end_of_sparkd_gets_out() -> None:
    def ended() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded_call(ended, "journal work")


def test_work_in_a_thread_is_guarded_in_the_same_words() -> None:
    with structlog.testing.capture_logs() as logged:
        assert guarded_call(lambda: 1 // 0, "journal work") is None
        assert guarded_call(lambda: 7, "journal work") == 7
    assert [(line["event"], line["hint"]) for line in logged] == [("journal work failed", HINT)]


async def test_f47_what_was_cancelled_and_still_ends_in_order_uses_no_processor() -> None:
    """agronholm/anyio#884: a cancelled scope with a shielded child in it spun at 100 % until that had ended."""

    async def ends_in_order() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.5)

    cpu, wall = time.process_time(), time.monotonic()
    async with anyio.create_task_group() as group:
        group.start_soon(guarded, ends_in_order, "teardown")
        await anyio.sleep(0)
        group.cancel_scope.cancel()
    assert time.monotonic() - wall >= 0.5
    assert time.process_time() - cpu < 0.5 * (time.monotonic() - wall)
