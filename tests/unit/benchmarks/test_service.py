import asyncio
import time
from itertools import count

from benchmarks.service import Connections, Traffic, open_loop, page, percentile

from services import served


def test_percentiles():
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.99) == 1.0
    assert percentile([], 0.5) != percentile([], 0.5)


def test_latencies_count_from_the_time_at_which_a_request_was_due():
    """A server that stalls once delays all requests that are due meanwhile; a closed loop would notice one."""

    async def stalls_once(number):
        if number == 0:
            time.sleep(0.3)  # the generator cannot send either
        return 200, b""

    found = asyncio.run(open_loop(100.0, 0.5, stalls_once))

    assert len(found.seconds) == 50
    assert sum(seconds > 0.1 for seconds in found.seconds) >= 15
    assert max(found.seconds) > 0.29


def test_at_several_times_the_capacity_every_request_is_answered(tmp_path):
    def at(point):
        if point == "decide" and is_slow:
            time.sleep(0.01)  # 100 decisions a second

    async def run(port):
        nonlocal is_slow
        connections = Connections(port)
        traffic = Traffic(connections, n_contexts=20, n_actions=5)
        await traffic.create("load")
        await traffic.decide("load", "first")
        is_slow = True
        found = await open_loop(300.0, 1.5, lambda number: traffic.decide("load", f"d{number}"))
        is_slow = False
        for number in count():  # until it has recovered
            status, answer = await traffic.decide("load", f"after{number}")
            if status == 200 and b'"mode":"policy"' in answer:
                break
        await connections.close()
        return found

    is_slow = False
    with served(tmp_path, at=at) as service:
        found = asyncio.run(run(service.port))

    assert found.n_unanswered == 0
    assert sum(found.statuses.values()) == 450
    assert set(found.statuses) <= {200, 503}
    assert found.modes.get("fallback", 0) + found.statuses.get(503, 0) > 50


def test_the_page_says_what_was_measured():
    found = {
        "latency": {"p50_ms": 5.0, "p99_ms": 20.0, "modes": {"policy": 9}, "n": 10, "processor_ms": 3.0},
        "throughput": {"decisions_per_second": 300.0, "rewards_per_second": 5_000.0},
        "soak": {
            "n": 100, "rate": 60.0, "memory_growth_mb": 1.0, "p99_first_tenth_ms": 5.0, "p99_last_tenth_ms": 6.0,
        },
        "overload": {
            "rate": 1_500.0, "p99_ms": 100.0, "statuses": {200: 5, 503: 2}, "modes": {"fallback": 5}, "unanswered": 0,
            "lag_ms": 3.0, "recovery_s": 0.1, "memory_growth_mb": 3.0,
        },
        "recovery": {"n_rows": 1_000, "learned_per_second": 2_500.0, "same_record": True, "restart_s": 1.0},
        "ending": {"rate": 100.0, "seconds": 0.5, "exit_status": 0, "n": 190},
        "load": 9.0,
        "sync_ms": 1.5,
    }  # fmt: skip

    text = page(found, 5.0, 20_000)

    assert "p50 | 5.0 ms | 8 ms |" in text
    assert "with status 0 | 0.50 s | 10 s |" in text
    assert "5 × 200, 2 × 503; 5 × fallback; 0 without answer" in text
    assert "apsw" in text
