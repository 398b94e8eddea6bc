"""A day in the life of a decision service: `python examples/day_in_the_life.py`.

Headlines come and go, readers click late, twice or never, the process is killed in the middle, and a new version of the
policy takes over. Nothing that was acknowledged is lost, and at the end a replay of the log gives the same record.
"""

import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kernelbandits.service import Client, ServiceError

TASTE = {"sport": 0.6, "politics": 0.2, "food": 0.4, "travel": 0.3}
ENDINGS = ("today", "explained", "in pictures", "live", "in numbers", "again", "for beginners", "of the year")
POLICY = {"class": "KernelUCB", "kernel": {"class": "Spectrum", "n": 3}, "exploration": 0.5}
WIDER = {**POLICY, "kernel": {"class": "Spectrum", "n": 2}}
BATCH = 100


def start(data, port):
    """Start the service, and wait until it has recovered."""
    command = [sys.executable, "-m", "kernelbandits", "serve", "--data", data, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with Client(f"http://127.0.0.1:{port}", retries=0) as client:
        for _ in range(3_000):
            try:
                client.request("GET", "/readyz")
                return process
            except ServiceError:
                time.sleep(0.1)
    raise SystemExit("The service did not start.")


def headlines(number, draw):
    """Three headlines of the hour."""
    hour = number // 500
    topics = draw.sample(sorted(TASTE), 3)
    endings = [ENDINGS[(hour + draw.randrange(4)) % len(ENDINGS)] for _ in topics]
    return [{"id": topic, "x": f"{topic} {ending}"} for topic, ending in zip(topics, endings)]


def is_clicked(answer, draw):
    return float(draw.random() < TASTE[answer["action_id"]])


def command(*arguments):
    """Run a command of the service, and return what it says as JSON."""
    call = [sys.executable, "-m", "kernelbandits", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)


def main(n_decisions=10_000):
    draw = random.Random(0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp())
    data = str(folder / "data")
    process = start(data, port)
    client = Client(f"http://127.0.0.1:{port}", timeout=120.0, retries=10)
    batches = "/v1/experiments/news/decisions/batch"
    try:
        # Create: a window of three seconds, so that late rewards come within this script.
        client.create(
            "news", POLICY, wait=3.0, default_reward=0.0, late="amend", holdout=0.1, deadline=60.0, pending_limit=10
        )
        client.act("news", "start")

        # Decide, and reward: most at once, some twice, some late, some never.
        answers, late = {}, []
        middle = n_decisions // 2 // BATCH * BATCH
        for first in range(0, n_decisions, BATCH):
            asked = [
                {"id": f"d{n}", "actions": headlines(n, draw)} for n in range(first, min(first + BATCH, n_decisions))
            ]
            made = client.request("POST", batches, {"decisions": asked})["results"]
            answers |= {one["decision_id"]: one for one in made}
            rewards = []
            for one in made:
                fate, value = draw.random(), is_clicked(one, draw)
                if fate < 0.7:
                    rewards.append({"decision_id": one["decision_id"], "id": "click", "reward": value})
                if fate < 0.1:
                    rewards.append({"decision_id": one["decision_id"], "id": "correction", "reward": 1.0 - value})
                if 0.7 <= fate < 0.8:
                    late.append({"decision_id": one["decision_id"], "id": "click", "reward": value})
            client.rewards("news", rewards)

            if first == middle:  # kill -9: no warning, nothing is written any more
                process.send_signal(signal.SIGKILL)
                process.wait()
                process = start(data, port)
                again = client.request("POST", batches, {"decisions": asked})["results"]
                assert all(one["replayed"] for one in again), "an acknowledged decision was lost"
                assert [(one["action_id"], one["propensity"], one["seq"]) for one in again] == [
                    (one["action_id"], one["propensity"], one["seq"]) for one in made
                ]
                assert all(one["replayed"] for one in client.rewards("news", rewards)), "a reward was lost"
        print(f"{len(answers):,} decisions; killed and restarted after {middle + BATCH:,}: all were still there.")

        # Late rewards: the windows are over, defaults were learned, and are amended exactly.
        time.sleep(4.0)
        for place in range(0, len(late), BATCH):
            client.rewards("news", late[place : place + BATCH])
        summary = client.request("GET", "/v1/experiments/news/summary")
        funnel, comparison = summary["funnel"], summary["comparison"]
        print("Funnel: " + ", ".join(f"{name} {n:,}" for name, n in funnel.items() if n))
        print(f"Policy {comparison['policy']['mean']:.3f}, holdout {comparison['holdout']['mean']:.3f}")

        # A new version, built by a replay of the log in another process, then in shadow.
        version = client.request("POST", "/v1/experiments/news/policies", {"policy": WIDER, "note": "pairs of letters"})
        path = f"/v1/experiments/news/policies/{version['id']}"
        while (found := client.request("GET", path))["status"] == "building":
            if found["error"]:
                raise SystemExit(found["error"])
            time.sleep(0.5)

        # What would it have earned? Then let it decide.
        for policy in ("p1", version["id"]):
            asked = {"policy": policy, "last": min(2_000, n_decisions // 2)}
            found = client.request("POST", "/v1/experiments/news/evaluations", asked)["estimate"]
            print(f"{policy} would have earned {found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})")
        client.request("POST", f"{path}/activate")
        answer = client.decide("news", headlines(0, draw), id="after")
        assert answer["policy"] == version["id"]

        # Export, stop, and verify: chain, snapshots, and a replay from nothing.
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        exported = command("export", "news", folder / "news.ndjson", "--data", data)
        verified = command("verify", "--data", data)
        assert verified["is_sound"], verified["findings"]
        print(f"{exported['n_rows']:,} rows exported; {verified['n_rows']:,} verified: a replay gives the same record.")
    finally:
        client.close()
        process.kill()
        process.wait()
    return {"funnel": funnel, "n_decisions": len(answers), "n_rows": verified["n_rows"]}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
