"""A longer run: memory stays flat, and the log is sound at the end."""

import random
import time

import psutil
import pytest

from kernelbandits.service.schemas import Action, DecisionRequest, RewardRequest
from services import PATIENCE, ROWS, check, experiment, running, settle

SECONDS = 600.0
WARM_UP = 25_000
"""Decisions after which every cache is full: the policy remembers between 10,000 and 20,000 of them."""


def soak(folder, seconds, n_most):
    """Decide and reward for some time; return the number of decisions and the memory in MB at each 1,000."""
    process, draw, seen = psutil.Process(), random.Random(0), []
    contexts = [[round(draw.gauss(0, 1), 2) for _ in range(4)] for _ in range(200)]
    with running(folder) as learner:
        experiment(learner, policy={**ROWS, "budget": 100}, wait=5.0, default_reward=0.0)
        end, n = time.monotonic() + seconds, 0
        while time.monotonic() < end and n < n_most:
            names = [f"d{number}" for number in range(n, n + 200)]
            n += 200
            jobs = []
            for name in names:
                rows = draw.sample(range(200), 5)
                request = DecisionRequest(actions=[Action(f"a{row}", contexts[row]) for row in rows])
                jobs.append(learner.decide("e", name, request))
            for job in jobs:
                job.future.result(PATIENCE)
            rewards = [(name, "r", RewardRequest(reward=0.5, final=draw.random() < 0.5)) for name in names]
            learner.rewards("e", rewards).result(PATIENCE)
            if n % 1_000 == 0:
                seen.append(process.memory_info().rss / 2**20)
        settle(learner)
        check(learner)
    return n, seen


def test_a_short_soak(tmp_path):
    n, seen = soak(tmp_path, 3.0, 2_000)

    assert n >= 200
    assert all(size > 0 for size in seen)


@pytest.mark.long
def test_memory_stays_flat(tmp_path):
    n, seen = soak(tmp_path, SECONDS, 150_000)
    warm = seen[WARM_UP // 1_000 :]
    if len(warm) < 10:
        pytest.skip(f"the machine made {n} decisions in {SECONDS:g} s, too few after the warm-up")

    slope = (warm[-1] - warm[0]) / (1_000 * (len(warm) - 1)) * 100_000

    assert slope <= 5.0, f"{slope:.1f} MB per 100,000 decisions and rewards"
