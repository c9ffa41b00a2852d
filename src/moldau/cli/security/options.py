"""What rules and roles of `moldau security` are about, as it is typed and as it is shown."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from moldau.cli import completion
from moldau.cli.output import WRONG_USAGE, CommandError, nearest
from moldau.security.authorizer import SUPPORTED
from moldau.types.acls import CLUSTER_NAME, Operation, Pattern, Resource

ANYWHERE: Final = ("*",)
ABOUT: Final = "What it is about"
OPERATIONS: Final = {each.name.lower().replace("_", "-"): each for each in Operation}
KINDS: Final = {each: each.name.lower().replace("_", "-") for each in Resource}

_Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="NAME", autocompletion=completion.topics, help="'*': all.",
                 rich_help_panel=ABOUT),
]  # fmt: skip
_Groups = Annotated[list[str] | None, typer.Option("--group", "-g", metavar="NAME", rich_help_panel=ABOUT)]
_TransactionalIds = Annotated[list[str] | None, typer.Option("--transactional-id", metavar="ID", rich_help_panel=ABOUT)]
_Tokens = Annotated[list[str] | None, typer.Option("--token", metavar="ID", rich_help_panel=ABOUT)]
_Users = Annotated[
    list[str] | None,
    typer.Option("--user", metavar="User:NAME", help="Whose tokens are made or described.", rich_help_panel=ABOUT),
]
_TheCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.", rich_help_panel=ABOUT)]
_Prefixed = Annotated[
    bool, typer.Option("--prefixed", help="The names are beginnings of names.", rich_help_panel=ABOUT)
]
_ABOUT_OPTIONS: Final = {
    "topic": (_Topics, None), "group": (_Groups, None), "transactional_id": (_TransactionalIds, None),
    "token": (_Tokens, None), "user": (_Users, None), "the_cluster": (_TheCluster, False),
    "prefixed": (_Prefixed, False),
}  # fmt: skip
Hosts = Annotated[list[str] | None, typer.Option("--host", metavar="ADDRESS", help="Only from there; else from all.")]
OperationNames = Annotated[
    list[str] | None,
    typer.Option("--operation", "-O", metavar="OPERATION", help=f"{', '.join(OPERATIONS)}."),
]


@dataclass(frozen=True, slots=True)
class Place:
    resource: Resource
    pattern: Pattern
    name: str

    def __str__(self) -> str:
        if self.resource is Resource.CLUSTER:
            return "the cluster"
        return f"{KINDS[self.resource]} {self.name}{'…' if self.pattern is Pattern.PREFIXED else ''}"


def concerned(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command options, in the place of its parameter `about`, that name what it is about: a list of places."""

    @functools.wraps(function)
    def command(*arguments: Any, **values: Any) -> Any:
        named = [values.pop(name) for name in _ABOUT_OPTIONS]
        return function(*arguments, about=places(*named), **values)

    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in _ABOUT_OPTIONS.items()
    ]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        parameters += options if parameter.name == "about" else [parameter]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def places(
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    transactional_ids: Sequence[str] | None,
    tokens: Sequence[str] | None,
    users: Sequence[str] | None,
    cluster: bool,
    prefixed: bool,
) -> list[Place]:
    pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
    named = {
        Resource.TOPIC: topics, Resource.GROUP: groups, Resource.TRANSACTIONAL_ID: transactional_ids,
        Resource.DELEGATION_TOKEN: tokens, Resource.USER: users,
    }  # fmt: skip
    found = [Place(resource, pattern, name) for resource, names in named.items() for name in names or ()]
    if cluster:
        found.append(Place(Resource.CLUSTER, Pattern.LITERAL, CLUSTER_NAME))
    return list(dict.fromkeys(found))


def required(found: list[Place]) -> list[Place]:
    if not found:
        hint = "give --topic, --group, --transactional-id, --token, --user or --cluster"
        raise CommandError("nothing is named that it is about", hint, WRONG_USAGE)
    return found


def operation(text: str) -> Operation:
    """`idempotent-write`, or as Kafka writes it: IdempotentWrite, IDEMPOTENT_WRITE."""
    plain = text.replace("-", "").replace("_", "").lower()
    for name, found in OPERATIONS.items():
        if name.replace("-", "") == plain:
            return found
    hint = nearest(text.lower(), list(OPERATIONS)) or f"known are {', '.join(OPERATIONS)}"
    raise CommandError(f"unknown operation {text!r}", hint, WRONG_USAGE)


def pairs(found: Sequence[Place], operations: Sequence[str] | None) -> Iterator[tuple[Place, Operation]]:
    """Each place with each operation that makes sense there; complains about others."""
    wanted = [operation(text) for text in operations or ()]
    if not wanted:
        raise CommandError("no operation is named", f"give --operation: {', '.join(OPERATIONS)}", WRONG_USAGE)
    for place in found:
        for each in wanted:
            if each is not Operation.ALL and each not in SUPPORTED[place.resource]:
                known = ", ".join(name for name, one in OPERATIONS.items() if one in SUPPORTED[place.resource])
                what = "the cluster" if place.resource is Resource.CLUSTER else f"a {KINDS[place.resource]}"
                raise CommandError(
                    f"{operation_name(each)} is nothing that is done to {what}", f"there are all, {known}", WRONG_USAGE
                )
            yield place, each


def operation_name(wanted: Operation) -> str:
    return wanted.name.lower().replace("_", "-")


def principal(text: str) -> str:
    """`User:` may be left out."""
    if not text:
        raise CommandError("a principal has a name", "User:alice, or alice", WRONG_USAGE)
    return text if ":" in text else f"User:{text}"
