"""Golden traces: what every policy chose in three worlds with two seeds, before and after every change of its code.

python -m golden.traces            # in tests/: write traces of cases that have none
python -m golden.traces --all      # and of all others again: only where a change of numbers is meant
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import kernelbandits as kb
from golden.policies import CASES
from golden.worlds import World
from kernelbandits.errors import KernelBanditWarning

FILE = Path(__file__).with_name("traces.npz")
SEEDS = (0, 1)
FIELDS = ("action", "mean", "width", "score", "propensity")


def trace(case: str, seed: int) -> Any:
    """One row per round: action, mean, width, score, propensity."""
    name, make = CASES[case]
    world = World(name)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelBanditWarning)
        policy = make(world, seed)
        for t in range(world.horizon):
            contexts, features = world.round(t)
            decision = policy.choose(contexts)
            policy.learn(decision, float(world.rewards(t, features, seed)[decision.action]))
            rows.append([getattr(decision, name) for name in FIELDS])
    return np.array(rows, dtype=float)


def main() -> None:
    """Write the file."""
    known = {} if "--all" in sys.argv or not FILE.exists() else dict(np.load(FILE))
    kb.compile_ahead()
    for case in CASES:
        for seed in SEEDS:
            key = f"{case}, seed {seed}"
            if key not in known:
                known[key] = trace(case, seed)
                print(key)
    np.savez_compressed(FILE, **known)


if __name__ == "__main__":
    main()
