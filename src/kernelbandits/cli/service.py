"""`kernelbandits serve`, and the commands around a service: its folder, its keys, its experiments and its log."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kernelbandits._optional import import_optional
from kernelbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from kernelbandits.service.client import Client
    from kernelbandits.service.settings import Settings
    from kernelbandits.service.store import SqliteStore

__all__ = ["add_to"]

URL: Final = "http://127.0.0.1:8090"

NOT_SOUND: Final = 3
"""Exit status of `verify` and `doctor` where something is wrong."""


EXITS: Final = "0 when done, 2 for what you can fix"


class Command(NamedTuple):
    """One command: help, examples, options and what it does."""

    name: str
    help: str
    examples: str
    options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Any]
    exits: str = EXITS


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the commands."""
    for one in COMMANDS:
        parser = commands.add_parser(
            one.name,
            help=one.help,
            description=f"{one.help[0].upper()}{one.help[1:]}.",
            epilog=f"examples:\n{one.examples}\n\nexit status: {one.exits}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.options(parser)
        parser.add_argument("--json", action="store_true", help="print the answer as JSON")
        parser.set_defaults(run=_runner(one))


def _runner(command: Command) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        for package in ("msgspec", "apsw", "starlette"):
            import_optional(package, f"`kernelbandits {command.name}`", extra="service")
        answer = command.run(arguments)
        if answer is not None:
            _print(answer, as_json=arguments.json)

    return run


def _print(answer: Any, *, as_json: bool) -> None:
    if as_json or not isinstance(answer, dict):
        json.dump(answer, sys.stdout, indent=2)
        print()
        return
    for name, value in answer.items():
        print(f"{name:16} {value if isinstance(value, str) else json.dumps(value)}")


# -- options ---------------------------------------------------------------------------------------------------------


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="FOLDER", help="data folder (default: kernelbandits-data)")


def _remote(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default=URL, help=f"address of the service (default: {URL})")
    parser.add_argument(
        "--key", help="key of the service (default: the environment variable KERNELBANDITS_SERVICE_KEY)"
    )


def _settings(arguments: argparse.Namespace) -> Settings:
    from kernelbandits.service.settings import Settings

    names = ("data", "host", "port")
    return Settings.read({name: getattr(arguments, name) for name in names if hasattr(arguments, name)})


def _client(arguments: argparse.Namespace) -> Client:
    import os

    from kernelbandits.service.client import Client

    return Client(arguments.url, key=arguments.key or os.environ.get("KERNELBANDITS_SERVICE_KEY"), timeout=600.0)


def _store(arguments: argparse.Namespace, *, is_read_only: bool = True) -> SqliteStore:
    from kernelbandits.service.store import SqliteStore

    return SqliteStore(_settings(arguments).database, is_read_only=is_read_only)


# -- serve, init, doctor ---------------------------------------------------------------------------------------------


def _serve_options(parser: argparse.ArgumentParser) -> None:
    _data(parser)
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1, this machine only)")
    parser.add_argument("--port", type=int, help="port (default: 8090)")
    parser.add_argument(
        "--experiment", default="first", metavar="NAME", help="experiment of a new folder (default: first)"
    )
    parser.add_argument("--empty", action="store_true", help="begin a new folder without an experiment")


def _serve(arguments: argparse.Namespace) -> None:
    from kernelbandits.service.serve import serve

    def say(text: str) -> None:
        print(text, flush=True)

    first = None if arguments.empty else arguments.experiment
    status = serve(_settings(arguments), first=first, say=say, as_json=arguments.json)
    if status:
        sys.exit(status)


def _init(arguments: argparse.Namespace) -> Any:
    from kernelbandits.service.serve import hold_folder
    from kernelbandits.service.store import SqliteStore

    settings = _settings(arguments)
    with hold_folder(settings):
        SqliteStore(settings.database).close()
    return {"database": str(settings.database)}


def _doctor(arguments: argparse.Namespace) -> Any:
    from kernelbandits.service.operate import doctor

    found = doctor(_settings(arguments))
    _print(found, as_json=arguments.json)
    if found["findings"]:
        sys.exit(NOT_SOUND)


# -- keys ------------------------------------------------------------------------------------------------------------


def _actions(parser: argparse.ArgumentParser, **listed: tuple[str, str]) -> list[argparse.ArgumentParser]:
    """Subcommands by name, each with its help and an example."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = []
    for name, (text, example) in listed.items():
        one = actions.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"example:\n  kernelbandits {example}\n\nexit status: {EXITS}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("--json", action="store_true", help="print the answer as JSON")
        made.append(one)
    return made


def _keys_options(parser: argparse.ArgumentParser) -> None:
    create, revoke, listed = _actions(
        parser,
        create=("create a key; its secret is shown once", "keys create --scope decide --scope reward"),
        revoke=("revoke a key, at once", "keys revoke 1f0c9a3e"),
        list=("list keys", "keys list --json"),
    )
    create.add_argument("--scope", action="append", required=True, choices=("decide", "reward", "read", "manage"))
    create.add_argument("--experiment", action="append", default=[], metavar="NAME", help="only for these experiments")
    revoke.add_argument("id", help="id of the key, as `keys list` shows it")
    for one in (create, revoke, listed):
        _data(one)


def _keys(arguments: argparse.Namespace) -> Any:
    import time

    from kernelbandits._files import writable_folder
    from kernelbandits.service.keys import create_key
    from kernelbandits.service.store import SqliteStore

    settings = _settings(arguments)
    if arguments.action == "create":
        writable_folder(settings.data)  # a key may be there before the service
    elif not settings.database.exists():
        raise InvalidParameter(f"There is no database {str(settings.database)!r}. Make one: kernelbandits init")
    store = SqliteStore(settings.database)
    try:
        if arguments.action == "create":
            key, secret = create_key(store, arguments.scope, arguments.experiment)
            return {"id": key.id, "key": secret, "scopes": sorted(key.scopes), "experiments": sorted(key.experiments)}
        if arguments.action == "revoke":
            if not store.revoke_key(arguments.id, time.time()):
                raise InvalidParameter(f"There is no key {arguments.id!r}. See: kernelbandits keys list")
            return {"id": arguments.id, "revoked": True}
        known = store.keys()
        return [
            {
                "id": key.id,
                "scopes": sorted(key.scopes),
                "experiments": sorted(key.experiments),
                "revoked": key.revoked is not None,
            }
            for key in known
        ]
    finally:
        store.close()


# -- experiments, decisions ------------------------------------------------------------------------------------------


def _experiment_options(parser: argparse.ArgumentParser) -> None:
    create, *others = _actions(
        parser,
        create=("create and start an experiment from a JSON file, or - for the input", "experiment create news.json"),
        **{
            name: (f"{name} an experiment", f"experiment {name} news")
            for name in ("start", "pause", "resume", "end", "show")
        },
    )
    create.add_argument("file", help="settings: name, policy, reward_range, wait, default_reward, …")
    create.add_argument("--draft", action="store_true", help="do not start it")
    for one in others:
        one.add_argument("name", help="name of the experiment")
    for one in (create, *others):
        _remote(one)


def _experiment(arguments: argparse.Namespace) -> Any:
    with _client(arguments) as client:
        if arguments.action == "create":
            settings = _read_json(arguments.file)
            made = client.create(settings.pop("name", ""), settings.pop("policy", {}), **settings)
            return made if arguments.draft else client.act(made["name"], "start")
        if arguments.action == "show":
            return client.show(arguments.name)
        return client.act(arguments.name, arguments.action)


def _read_json(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidParameter(f"{file} holds no JSON object: {error}.") from error
    if not isinstance(found, dict):
        raise InvalidParameter(f"{file} holds no JSON object.")
    return found


def _decide_options(parser: argparse.ArgumentParser) -> None:
    _remote(parser)
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("actions", nargs="*", metavar="ID=VALUE", help="actions; none: the catalog")
    parser.add_argument("--id", help="id of the decision")
    parser.add_argument("-k", type=int, default=1, help="length of a slate")


def _decide(arguments: argparse.Namespace) -> Any:
    actions = [_action(text) for text in arguments.actions] or None
    with _client(arguments) as client:
        more = {} if arguments.k == 1 else {"k": arguments.k}
        return client.decide(arguments.experiment, actions, id=arguments.id, **more)


def _action(text: str) -> dict[str, Any]:
    """An action of the command line: a=0.1,0.7 is a row, a="some text" a string, and a alone an id."""
    name, has_value, value = text.partition("=")
    if not has_value:
        return {"id": name}
    try:
        return {"id": name, "x": [float(part) for part in value.split(",")]}
    except ValueError:
        return {"id": name, "x": value}


def _reward_options(parser: argparse.ArgumentParser) -> None:
    _remote(parser)
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("decision", help="id of the decision")
    parser.add_argument("reward", type=float, help="the reward")
    parser.add_argument("--id", default="r1", help="id of the reward (default: r1)")
    parser.add_argument("--final", action="store_true", help="close the decision")


def _reward(arguments: argparse.Namespace) -> Any:
    more = {"final": True} if arguments.final else {}
    with _client(arguments) as client:
        return client.reward(arguments.experiment, arguments.decision, arguments.reward, id=arguments.id, **more)


def _tail_options(parser: argparse.ArgumentParser) -> None:
    _remote(parser)
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("-n", type=int, default=20, help="rows to show (default: 20)")
    parser.add_argument("--follow", action="store_true", help="go on with new rows")


def _tail(arguments: argparse.Namespace) -> None:
    import time

    with _client(arguments) as client:
        start = max(1, client.status()["seq"] - arguments.n + 1)
        while True:
            for event in client.log(arguments.experiment, start=start):
                start = int(event["id"]) + 1
                print(json.dumps(event) if arguments.json else _line(event), flush=True)
            if not arguments.follow:
                return
            time.sleep(1.0)


def _line(event: dict[str, Any]) -> str:
    kind = event["type"].partition(".")[2]
    return f"{event['id']:>8}  {event['time']}  {kind:12} {event.get('subject', '')}  {json.dumps(event['data'])[:160]}"


def _erase_options(parser: argparse.ArgumentParser) -> None:
    _remote(parser)
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("--subject", required=True, help="the subject, as decisions named it")


def _erase(arguments: argparse.Namespace) -> Any:
    with _client(arguments) as client:
        path = f"/v1/experiments/{arguments.experiment}/erase"
        return client.request("POST", path, {"subject": arguments.subject})


def _evaluate_options(parser: argparse.ArgumentParser) -> None:
    _remote(parser)
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("policy", help="a version, such as p2, or a JSON file with a description")
    parser.add_argument("--estimator", choices=("IPS", "SNIPS", "DM", "DR"), default="SNIPS")


def _evaluate(arguments: argparse.Namespace) -> Any:
    policy = _read_json(arguments.policy) if arguments.policy.endswith(".json") else arguments.policy
    with _client(arguments) as client:
        path = f"/v1/experiments/{arguments.experiment}/evaluations"
        return client.request("POST", path, {"policy": policy, "estimator": arguments.estimator})


def _snapshot(arguments: argparse.Namespace) -> Any:
    with _client(arguments) as client:
        return client.request("POST", "/v1/snapshot")


# -- the log ---------------------------------------------------------------------------------------------------------


def _verify(arguments: argparse.Namespace) -> None:
    from kernelbandits.service.log import verify_log

    store = _store(arguments)
    try:
        found = verify_log(store, _settings(arguments).data)
    finally:
        store.close()
    _print(found, as_json=arguments.json)
    if not found["is_sound"]:
        sys.exit(NOT_SOUND)


def _replay_options(parser: argparse.ArgumentParser) -> None:
    _data(parser)
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("--to", type=int, metavar="SEQ", help="last row (default: all)")
    parser.add_argument("--policy", help="version (default: the active one)")
    parser.add_argument("--into", metavar="FILE.kb", help="write the policy, to be opened with kernelbandits.load")


def _replay(arguments: argparse.Namespace) -> Any:
    from kernelbandits.service.operate import replay_into

    store = _store(arguments)
    try:
        return replay_into(store, arguments.experiment, arguments.policy, arguments.to, arguments.into)
    finally:
        store.close()


def _backup_options(parser: argparse.ArgumentParser) -> None:
    _data(parser)
    parser.add_argument("into", metavar="FOLDER", help="folder of the backup; must not exist")


def _backup(arguments: argparse.Namespace) -> Any:
    from kernelbandits.service.operate import backup

    return backup(_settings(arguments), Path(arguments.into))


def _restore_options(parser: argparse.ArgumentParser) -> None:
    _data(parser)
    parser.add_argument("backup", metavar="FOLDER", help="folder that `backup` wrote")


def _restore(arguments: argparse.Namespace) -> Any:
    from kernelbandits.service.operate import restore

    return restore(Path(arguments.backup), _settings(arguments))


def _export_options(parser: argparse.ArgumentParser) -> None:
    _data(parser)
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("into", metavar="FILE", help="FILE.parquet, or FILE.ndjson for CloudEvents")


def _export(arguments: argparse.Namespace) -> Any:
    from kernelbandits.service.operate import export_log

    store = _store(arguments)
    try:
        return export_log(store, arguments.experiment, Path(arguments.into))
    finally:
        store.close()


def _import_options(parser: argparse.ArgumentParser) -> None:
    _remote(parser)
    parser.add_argument("experiment", help="name of the experiment; it must be running")
    parser.add_argument("file", help="FILE.ndjson, FILE.csv, or FILE.dsjson of Vowpal Wabbit")


def _import(arguments: argparse.Namespace) -> Any:
    from kernelbandits.service.operate import import_log

    with _client(arguments) as client:
        return import_log(client, arguments.experiment, Path(arguments.file))


COMMANDS: Final = (
    Command(
        "serve",
        "a decision service over HTTP: decisions, rewards, a log that survives power cuts",
        "  kernelbandits serve                        on this machine, in ./kernelbandits-data\n"
        "  kernelbandits serve --port 9000 --data /var/lib/kernelbandits\n"
        "  kernelbandits serve --host 0.0.0.0         needs a key: kernelbandits keys create",
        _serve_options,
        _serve,
        "0 after SIGTERM or Ctrl-C, 2 for what you can fix, 74 after an I/O error (start it again)",
    ),
    Command(
        "init", "make the data folder of a service", "  kernelbandits init --data /var/lib/kernelbandits", _data, _init
    ),
    Command(
        "doctor",
        "check a data folder: disk, flushes, clock, database, keys",
        "  kernelbandits doctor\n  kernelbandits doctor --json",
        _data,
        _doctor,
        "0 when all is well, 3 where something is wrong",
    ),
    Command(
        "keys",
        "access keys of a service: create, list, revoke",
        "  kernelbandits keys create --scope decide --scope reward --experiment news\n"
        "  kernelbandits keys list\n  kernelbandits keys revoke 1f0c9a3e",
        _keys_options,
        _keys,
    ),
    Command(
        "experiment",
        "experiments of a running service: create, start, pause, resume, end, show",
        "  kernelbandits experiment create news.json\n  kernelbandits experiment pause news\n"
        "  kernelbandits experiment show news --json",
        _experiment_options,
        _experiment,
    ),
    Command(
        "decide",
        "ask a running service for a decision",
        '  kernelbandits decide first a="Cheap flights to Rome" b="Rome wins the cup"\n'
        "  kernelbandits decide news a=0.1,0.7 b=0.3,0.2 --id d1",
        _decide_options,
        _decide,
    ),
    Command(
        "reward",
        "report a reward to a running service",
        "  kernelbandits reward first d1 1.0",
        _reward_options,
        _reward,
    ),
    Command(
        "tail",
        "show the last rows of the log of a running service",
        "  kernelbandits tail first\n  kernelbandits tail first --follow --json",
        _tail_options,
        _tail,
    ),
    Command(
        "verify",
        "check the log of a data folder: chain, snapshots, and that a replay gives the same record",
        "  kernelbandits verify --data /var/lib/kernelbandits",
        _data,
        _verify,
        "0 when all is sound, 3 where something is wrong, 2 for what you can fix",
    ),
    Command(
        "replay",
        "replay the log of an experiment, up to a row or to its end, into a policy file",
        "  kernelbandits replay news --to 48122 --into then.kb",
        _replay_options,
        _replay,
    ),
    Command(
        "snapshot", "write snapshots of all models of a running service", "  kernelbandits snapshot", _remote, _snapshot
    ),
    Command(
        "backup",
        "copy the data folder of a service, also while it runs",
        "  kernelbandits backup /backups/2026-11-19",
        _backup_options,
        _backup,
    ),
    Command(
        "restore",
        "make a data folder from a backup",
        "  kernelbandits restore /backups/2026-11-19 --data /var/lib/kernelbandits",
        _restore_options,
        _restore,
    ),
    Command(
        "export",
        "write the decisions of an experiment as Parquet, or its rows as CloudEvents",
        "  kernelbandits export news news.parquet\n  kernelbandits export news news.ndjson",
        _export_options,
        _export,
    ),
    Command(
        "import",
        "send decisions and rewards of a file to a running service (ndjson, csv, dsjson)",
        "  kernelbandits import news history.ndjson\n  kernelbandits import news history.dsjson",
        _import_options,
        _import,
    ),
    Command(
        "evaluate",
        "estimate what another policy would have earned on the log",
        "  kernelbandits evaluate news p2\n  kernelbandits evaluate news wider.json --estimator DR",
        _evaluate_options,
        _evaluate,
    ),
    Command(
        "erase",
        "erase the decisions of a subject, and what was learned from them",
        "  kernelbandits erase news --subject user-7",
        _erase_options,
        _erase,
    ),
)
