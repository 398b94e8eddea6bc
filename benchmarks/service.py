"""The decision service under load: `python -m benchmarks.service` writes benchmarks/service.md.

The generator is open-loop: requests are due at fixed times, whether earlier ones were answered or not, and a latency
counts from the time at which its request was due. The service runs in a process of its own, on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import load, machine, versions

__all__ = ["Connections", "Loaded", "main", "open_loop", "percentile"]

USUAL_PLACE: Final = Path(__file__).with_suffix(".md")

POLICY: Final = {"class": "KernelUCB", "kernel": {"class": "Gaussian", "length_scale": 1.0}, "exploration": 0.5}

BUDGET: Final = 500
"""Budget of the policy whose log is replayed; it learns twice as many contexts."""

COLUMNS: Final = 8


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share does not exceed; nan of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Connections:
    """HTTP/1.1 connections to one service, kept alive; as many as are needed at once."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._host, self._port = host, port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request; return status and body of the answer."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        while self._free and self._free[-1][0].at_eof():  # the service closes connections that are idle for long
            self._free.pop()[1].close()
        reader, writer = self._free.pop() if self._free else await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(head.encode() + data)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
            answer = await reader.readexactly(int(headers.get("content-length", "0")))
        except BaseException:
            writer.close()
            raise
        self._free.append((reader, writer))
        return int(lines[0].split(" ")[1]), answer

    async def close(self) -> None:
        """Close all connections."""
        for _, writer in self._free:
            writer.close()
        self._free.clear()


@dataclass
class Loaded:
    """What an open-loop run observed."""

    seconds: list[float] = field(default_factory=list)
    """Latencies of answered requests, from the time at which they were due, in order of the answers."""

    statuses: dict[int, int] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    n_unanswered: int = 0
    lags: list[float] = field(default_factory=list)
    """How late the generator itself sent each request."""

    def answered(self, status: int, answer: bytes, seconds: float) -> None:
        """Note an answer."""
        self.seconds.append(seconds)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 200 and b'"mode":"' in answer:
            mode = answer.split(b'"mode":"', 1)[1].split(b'"', 1)[0].decode()
            self.modes[mode] = self.modes.get(mode, 0) + 1


async def open_loop(rate: float, seconds: float, send: Callable[[int], Awaitable[tuple[int, bytes]]]) -> Loaded:
    """Send requests at a fixed rate for some time, and wait for the answers."""
    found, tasks = Loaded(), set()
    start = time.perf_counter()

    async def one(number: int, due: float) -> None:
        try:
            status, answer = await send(number)
        except (OSError, EOFError, asyncio.IncompleteReadError):
            found.n_unanswered += 1
            return
        found.answered(status, answer, time.perf_counter() - due)

    for number in range(int(rate * seconds)):
        due = start + number / rate
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        found.lags.append(time.perf_counter() - due)
        task = asyncio.create_task(one(number, due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        await asyncio.wait(tasks, timeout=30)
    found.n_unanswered += len(tasks)
    return found


# -- the service -----------------------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A service in a process of its own: its port and the process."""
    code = (
        "import sys; from pathlib import Path\n"
        "from kernelbandits.service.serve import serve\nfrom kernelbandits.service.settings import Settings\n"
        "sys.exit(serve(Settings(data=Path(sys.argv[1]), port=0), first=None, say=lambda t: print(t, flush=True)))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield int(line.rstrip("\n").rpartition(":")[2]), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


def memory(process: int) -> float:
    """Resident memory of a process in MB; nan where the system does not say it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024.0
    return float("nan")


def processor_seconds(process: int) -> float:
    """Processor time of a process so far; nan where the system does not say it."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return float("nan")


class Traffic:
    """Decisions among 50 of 500 contexts, and their rewards."""

    def __init__(self, connections: Connections, *, n_contexts: int = 500, n_actions: int = 50) -> None:
        draw = random.Random(0)
        self._contexts = [[round(draw.gauss(0, 1), 3) for _ in range(COLUMNS)] for _ in range(n_contexts)]
        self._connections, self._draw = connections, draw
        self._requests = [
            self._request(n_actions) for _ in range(n_contexts)
        ]  # written out: the generator is to be quick
        self._later: set[asyncio.Task[None]] = set()

    async def create(self, name: str, **settings: Any) -> None:
        """Create and start an experiment."""
        body = {"name": name, "policy": POLICY, "default_reward": 0.0, **settings}
        for path, content in (("/v1/experiments", body), (f"/v1/experiments/{name}/start", None)):
            status, answer = await self._connections.send("POST", path, content)
            assert status == 200, answer

    def _request(self, n_actions: int) -> bytes:
        """A decision request."""
        rows = self._draw.sample(range(len(self._contexts)), n_actions)
        return json.dumps({"actions": [{"id": f"a{row}", "x": self._contexts[row]} for row in rows]}).encode()

    async def decide(self, name: str, id: str) -> tuple[int, bytes]:
        """One decision."""
        body = self._draw.choice(self._requests)
        return await self._connections.send("PUT", f"/v1/experiments/{name}/decisions/{id}", body)

    async def reward(self, name: str, id: str) -> tuple[int, bytes]:
        """One reward."""
        path = f"/v1/experiments/{name}/decisions/{id}/rewards/r1"
        return await self._connections.send("PUT", path, {"reward": float(self._draw.random() < 0.3), "final": True})

    async def learn_all(self, name: str) -> None:
        """Let the policy learn every context once."""
        for start in range(0, len(self._contexts), 100):
            listed = [
                {"id": f"c{row}", "actions": [{"id": f"a{row}", "x": self._contexts[row]}]}
                for row in range(start, min(start + 100, len(self._contexts)))
            ]
            await self._connections.send("POST", f"/v1/experiments/{name}/decisions/batch", {"decisions": listed})
            await self.rewards(name, [one["id"] for one in listed])

    async def rewards(self, name: str, ids: list[Any]) -> None:
        """One batch of rewards."""
        body = {"rewards": [{"decision_id": name_of, "id": "r1", "reward": 0.5, "final": True} for name_of in ids]}
        status, answer = await self._connections.send("POST", f"/v1/experiments/{name}/rewards/batch", body)
        assert status == 200, answer

    async def pair(self, name: str, id: str) -> tuple[int, bytes]:
        """A decision; its reward follows, and is not waited for."""
        status, answer = await self.decide(name, id)
        if status == 200:
            self._later.add(task := asyncio.create_task(self._reward_later(name, id)))
            task.add_done_callback(self._later.discard)
        return status, answer

    async def _reward_later(self, name: str, id: str) -> None:
        await asyncio.sleep(0.05)
        with contextlib.suppress(OSError, EOFError):
            await self.reward(name, id)


# -- measurements ----------------------------------------------------------------------------------------------------


async def latency(traffic: Traffic, *, rate: float, seconds: float, process: int) -> dict[str, Any]:
    """Latency of durable decisions at a fixed rate, with rewards."""
    await traffic.create("latency")
    await traffic.learn_all("latency")
    await open_loop(rate, 3.0, lambda number: traffic.pair("latency", f"w{number}"))
    before = processor_seconds(process)
    found = await open_loop(rate, seconds, lambda number: traffic.pair("latency", f"d{number}"))
    used = processor_seconds(process) - before
    return {
        "rate": rate, "n": len(found.seconds), "statuses": found.statuses, "modes": found.modes,
        "unanswered": found.n_unanswered, "processor_ms": 1e3 * used / max(1, len(found.seconds)),
        "p50_ms": 1e3 * percentile(found.seconds, 0.50), "p99_ms": 1e3 * percentile(found.seconds, 0.99),
    }  # fmt: skip


async def throughput(traffic: Traffic, *, seconds: float, n_clients: int = 16) -> dict[str, Any]:
    """Durable decisions per second of clients that wait for their answers, and rewards per second in batches."""
    await traffic.create("throughput", deadline=5.0, pending_limit=50)
    await traffic.learn_all("throughput")
    done: list[str] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        turn = 0
        while time.perf_counter() < end:
            status, _ = await traffic.decide("throughput", f"t{number}-{turn}")
            if status == 200:
                done.append(f"t{number}-{turn}")
            turn += 1

    await asyncio.gather(*(client(number) for number in range(n_clients)))
    decisions = len(done) / seconds
    start = time.perf_counter()
    batches = [done[at : at + 256] for at in range(0, len(done), 256)]
    for at in range(0, len(batches), 4):
        await asyncio.gather(*(traffic.rewards("throughput", ids) for ids in batches[at : at + 4]))
    return {
        "decisions_per_second": decisions,
        "rewards_per_second": len(done) / (time.perf_counter() - start),
        "n": len(done),
    }


async def overload(traffic: Traffic, *, rate: float, seconds: float, process: int) -> dict[str, Any]:
    """Answers at several times the capacity, and the time until the policy decides again."""
    await traffic.create("overload")
    await traffic.learn_all("overload")
    before = memory(process)
    found = await open_loop(rate, seconds, lambda number: traffic.decide("overload", f"o{number}"))
    start = time.perf_counter()
    number = 0
    while True:
        status, answer = await traffic.decide("overload", f"after{number}")
        if status == 200 and b'"mode":"policy"' in answer:
            break
        number += 1
        await asyncio.sleep(0.02)
    return {
        "rate": rate, "statuses": found.statuses, "modes": found.modes, "unanswered": found.n_unanswered,
        "p99_ms": 1e3 * percentile(found.seconds, 0.99), "lag_ms": 1e3 * percentile(found.lags, 0.99),
        "recovery_s": time.perf_counter() - start,
        "memory_growth_mb": memory(process) - before,
    }  # fmt: skip


async def soak(traffic: Traffic, *, rate: float, seconds: float, process: int) -> dict[str, Any]:
    """Memory and latency over a longer run."""
    await traffic.create("soak")
    await traffic.learn_all("soak")
    await open_loop(rate, seconds / 5, lambda number: traffic.pair("soak", f"w{number}"))
    before = memory(process)
    found = await open_loop(rate, seconds, lambda number: traffic.pair("soak", f"d{number}"))
    tenth = max(1, len(found.seconds) // 10)
    return {
        "rate": rate, "n": len(found.seconds),
        "memory_growth_mb": memory(process) - before,
        "p99_first_tenth_ms": 1e3 * percentile(found.seconds[:tenth], 0.99),
        "p99_last_tenth_ms": 1e3 * percentile(found.seconds[-tenth:], 0.99),
    }  # fmt: skip


async def ending(traffic: Traffic, *, rate: float, process: subprocess.Popen[str]) -> dict[str, Any]:
    """Time from SIGTERM under load until the process has ended."""
    await traffic.create("ending")
    loaded = asyncio.create_task(open_loop(rate, 2.0, lambda number: traffic.pair("ending", f"e{number}")))
    await asyncio.sleep(1.0)
    start = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    while process.poll() is None:
        await asyncio.sleep(0.01)
    seconds = time.perf_counter() - start
    found = await loaded
    return {"rate": rate, "seconds": seconds, "exit_status": process.returncode, "n": len(found.seconds)}


def recovery(folder: Path, *, n_rounds: int) -> dict[str, Any]:
    """Replay of a log from nothing, and the time from the start to readiness, both in this process."""
    from kernelbandits.service.learner import Learner, replay
    from kernelbandits.service.schemas import Action, DecisionRequest, Experiment, RewardRequest
    from kernelbandits.service.store import SqliteStore

    draw = random.Random(0)
    contexts = [[round(draw.gauss(0, 1), 3) for _ in range(COLUMNS)] for _ in range(2 * BUDGET)]
    learner = Learner(SqliteStore(folder / "log.db"), folder)
    learner.start()
    learner.create(Experiment(name="e", policy={**POLICY, "budget": BUDGET}, pending_limit=0)).result()
    learner.transition("e", "start").result()
    waiting = []
    for number in range(n_rounds):
        request = DecisionRequest(actions=[Action("a", contexts[number % len(contexts)])])
        waiting.append(learner.decide("e", f"d{number}", request).future)
        if len(waiting) == 256 or number == n_rounds - 1:
            for future in waiting:
                future.result()
            first = number + 1 - len(waiting)
            ids = [(f"d{place}", "r", RewardRequest(reward=0.5, final=True)) for place in range(first, number + 1)]
            learner.rewards("e", ids).result()
            waiting = []
    learner.snapshot().result()
    live = learner.experiments["e"]
    record, n_rows = live.model.record, learner.store.head().seq  # type: ignore[union-attr]
    start = time.perf_counter()
    again = replay(learner.store, live, live.versions["p1"], use_snapshots=False)
    replayed = time.perf_counter() - start
    learner.stop()
    learner.store.close()
    start = time.perf_counter()
    learner = Learner(SqliteStore(folder / "log.db"), folder)
    learner.start()
    ready = time.perf_counter() - start
    learner.stop()
    learner.store.close()
    return {
        "n_rows": n_rows, "same_record": again.record == record, "replay_s": replayed,
        "learned_per_second": n_rounds / replayed, "restart_s": ready,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the measurements and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each run under load (default 20)")
    parser.add_argument(
        "--rounds", type=int, default=20_000, help="decisions of the log that is replayed (default 20000)"
    )
    parser.add_argument("--into", type=Path, default=USUAL_PLACE, help="where the page goes")
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        with served(Path(folder) / "service") as (port, process):
            found = asyncio.run(_under_load(port, process, given.seconds))
        into = Path(folder) / "recovery"
        into.mkdir()
        found["recovery"] = recovery(into, n_rounds=given.rounds)
        from kernelbandits.service.operate import sync_seconds

        found["sync_ms"] = 1e3 * sync_seconds(into)
    text = page(found, given.seconds, given.rounds)
    given.into.write_text(text)
    given.into.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    print(text)
    return 0


async def _under_load(port: int, server: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
    connections = Connections(port)
    traffic, process = Traffic(connections), server.pid
    found = {
        "load": load(),
        "latency": await latency(traffic, rate=100.0, seconds=seconds, process=process),
        "throughput": await throughput(traffic, seconds=seconds),
        "soak": await soak(traffic, rate=60.0, seconds=2 * seconds, process=process),
    }
    rate = 5.0 * found["throughput"]["decisions_per_second"]
    found["overload"] = await overload(traffic, rate=rate, seconds=seconds / 2, process=process)
    found["ending"] = await ending(traffic, rate=100.0, process=server)
    await connections.close()
    return found


def page(found: dict[str, Any], seconds: float, rounds: int) -> str:
    """The figures as Markdown."""
    one, two, three = found["latency"], found["throughput"], found["soak"]
    four, five, six = found["overload"], found["recovery"], found["ending"]
    rows = [
        (
            "latency of a durable decision, 100/s with rewards, 50 actions, 500 contexts: p50",
            f"{one['p50_ms']:.1f} ms",
            "8 ms",
        ),
        ("… p99", f"{one['p99_ms']:.1f} ms", "25 ms"),
        ("… answered by the policy", f"{one['modes'].get('policy', 0)} of {one['n']}", ""),
        ("… processor time of the service for a decision and its reward", f"{one['processor_ms']:.1f} ms", ""),
        ("durable decisions per second, 16 clients that wait", f"{two['decisions_per_second']:.0f}", "300"),
        ("durable rewards per second, batches of 256", f"{two['rewards_per_second']:.0f}", "5,000"),
        (
            f"memory growth over {three['n']} decisions and rewards at {three['rate']:.0f}/s, while caches fill",
            f"{three['memory_growth_mb']:.1f} MB",
            "",
        ),
        (
            "p99 of the first and of the last tenth of that run",
            f"{three['p99_first_tenth_ms']:.0f}, {three['p99_last_tenth_ms']:.0f} ms",
            "ratio 1.2",
        ),
        (
            f"five times as many, {four['rate']:.0f} decisions/s: p99 of all answers",
            f"{four['p99_ms']:.0f} ms",
            "250 ms",
        ),
        (
            "… answers",
            _said(four["statuses"]) + "; " + _said(four["modes"]) + f"; {four['unanswered']} without answer",
            "",
        ),
        ("… by which the generator was late itself, p99", f"{four['lag_ms']:.0f} ms", ""),
        ("… until the policy decides again", f"{four['recovery_s']:.2f} s", "5 s"),
        ("… memory growth", f"{four['memory_growth_mb']:.0f} MB", ""),
        (
            f"SIGTERM at {six['rate']:.0f} decisions/s with rewards: until the end, with status {six['exit_status']}",
            f"{six['seconds']:.2f} s",
            "10 s",
        ),
        (
            f"replay of {five['n_rows']:,} rows from nothing, budget {BUDGET}, learned per second",
            f"{five['learned_per_second']:,.0f}",
            "2,000",
        ),
        ("… same record", str(five["same_record"]), "True"),
        (f"restart to ready with {five['n_rows']:,} rows", f"{five['restart_s']:.2f} s", "5 s"),
        ("flush of one page, median", f"{found['sync_ms']:.2f} ms", ""),
    ]
    where = "; ".join(f"{name} {value}" for name, value in {**machine(), **versions(), **_service_versions()}.items())
    lines = [
        "# The decision service under load", "",
        f"`python -m benchmarks.service --seconds {seconds:g} --rounds {rounds}`, {datetime.now(UTC):%Y-%m-%d}. "
        f"Load average before: {found['load']:.1f} on {os.cpu_count()} processors, "
        f"so the machine was {_how_busy(found['load'])}.",
        "Generator and service run on the same machine.",
        "Latencies count from the time at which a request was due (open loop).", "",
        "| what | measured | goal on two free cores |", "| --- | ---: | ---: |",
        *(f"| {what} | {value} | {goal} |" for what, value, goal in rows), "", where + ".", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _how_busy(average: float) -> str:
    if average <= 1.5 * (os.cpu_count() or 1):
        return "its own"
    is_first = hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
    return "shared with other work" + (", before which generator and service went (`chrt --rr 10`)" if is_first else "")


def _said(counts: dict[Any, int]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items(), key=str))


def _service_versions() -> dict[str, str]:
    return {name: version(name) for name in ("apsw", "starlette", "uvicorn", "msgspec")}


if __name__ == "__main__":
    sys.exit(main())
