"""What is typed after `sparkd` -> a command, or what was meant: click's commands with this project's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click


class Command(click.Command):
    """A command that answers an unknown option with the one that was meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _no_option(self, ctx, error.option_name) from None


class Ordered(Command, click.Group):
    """Lists its commands in the order in which they are written: what is needed most comes first."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._later: list[tuple[int, Callable[[], Iterable[tuple[str, click.Command]]]]] = []

    def add_later(self, make: Callable[[], Iterable[tuple[str, click.Command]]]) -> None:
        """Commands for this place in the order, made when the first is needed that is not here: that may cost time."""
        self._later.append((len(self.commands), make))

    def all_commands(self) -> dict[str, click.Command]:
        """Also those that were added for later."""
        while self._later:
            place, make = self._later.pop()  # the last one first: what is before it stays in its place
            written = list(self.commands.items())
            self.commands = dict([*written[:place], *make(), *written[place:]])
        return dict(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.commands.get(cmd_name) or self.all_commands().get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.all_commands())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            typed = error.command_name
        raise click.UsageError(f"There is no command {typed!r}; {self._meant(ctx, typed)}", ctx)

    def _meant(self, ctx: click.Context, typed: str) -> str:
        """What is a command elsewhere goes before what is spelled nearly so here: a bare `status` is that of `ctl`."""
        from sparkd.base.did_you_mean import closest  # only after a typo

        whole = {path[-1]: path for path, _ in commands(ctx.find_root().command)}
        here = closest(typed, self.commands)
        if typed not in whole and here:
            return f"did you mean `{ctx.command_path} {here}`?"
        if elsewhere := closest(typed, whole):
            meant = " ".join(("sparkd", *whole[elsewhere]))
            return f"did you mean `{meant}`?"
        return f"there is: {', '.join(self.commands)}"


class _Ranged(click.ParamType[Any]):
    """What is typed for a number, and what to write instead."""

    kind = "number"
    min: Any
    max: Any

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"write a {self.kind} {self._describe_range()}, not {str(value)!r}", param, ctx)

    def _describe_range(self) -> str:
        """Click shows this in the help too."""
        return f"from {self.min} up" if self.max is None else f"from {self.min} to {self.max}"


class Whole(_Ranged, click.IntRange):
    kind = "whole number"


class Number(_Ranged, click.FloatRange):
    pass


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below `group` with the words that lead to it, in the order of the help."""
    if not isinstance(group, click.Group):
        return
    for name, command in (group.all_commands() if isinstance(group, Ordered) else group.commands).items():
        yield (*path, name), command
        yield from commands(command, (*path, name))


def _no_option(command: click.Command, ctx: click.Context, typed: str) -> click.UsageError:
    from sparkd.base.did_you_mean import closest  # only after a typo

    options = [name for one in command.get_params(ctx) for name in one.opts if name.startswith("--")]
    inner = {name for _, one in commands(command) for param in one.params for name in param.opts}
    if typed in inner:
        hint = "write it behind the command that it is for"
    elif meant := closest(typed, options):
        hint = f"did you mean {meant}?"
    else:
        hint = f"there is: {', '.join(options)}"
    return click.UsageError(f"There is no option {typed}; {hint}", ctx)


config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=str),
    default="/etc/sparkd",
    envvar="SPARKD_CONFIG",
    show_default=True,
    show_envvar=True,
    metavar="PATH",
    help="A directory, or its sparkd.yaml.",
)
"""Of every command that reads the configuration itself."""
