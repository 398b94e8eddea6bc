"""Writes result folders as studies leave them, by the slow way, from traces of `simulate`."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from kernelbandits.evaluation import simulate
from kernelbandits.experiments.store import to_parquet
from kernelbandits.experiments.study import FORMAT


def job_columns(trace, *, every=1, dimensions=()):
    """Columns of a job: a row for every `every`-th round and the last one."""
    n = len(trace)
    rows = [t for t in range(n) if (t + 1) % every == 0 or t == n - 1]
    covered, potential, total, regret, n_covered = [], 0.0, 0.0, 0.0, 0
    for t in range(n):
        reach = trace.exploration[t] * trace.width[t]
        potential, total = potential + reach, total + trace.reward[t]
        regret += trace.best[t] - trace.expected[t]
        if np.isnan(reach) or np.isnan(trace.expected[t]):
            n_covered = -1
        elif n_covered >= 0:
            n_covered += int(abs(trace.expected[t] - trace.mean[t]) <= reach)
        covered.append((total, regret, potential, n_covered))
    names = ("action", "reward", "expected", "best", "propensity", "mean", "width", "exploration", "stage")
    columns = {"round": np.array(rows) + 1}
    columns |= {name: getattr(trace, name)[rows] for name in (*names, "n_actions", "log_det_gain", "inflation")}
    for place, name in enumerate(("total_reward", "regret", "potential", "n_covered")):
        columns[name] = np.array([covered[t][place] for t in rows])
    known = dict(dimensions)
    columns["effective_dimension"] = np.array([float(known.get(t + 1, np.nan)) for t in rows])
    return columns


def write_job(folder, *, environment, policy, seed, columns, seconds=None, **head):
    """One job, and its times; gives its id."""
    metadata = {
        "format": FORMAT, "environment": environment, "policy": policy, "spec_name": policy, "parameters": {},
        "seed": seed, "horizon": 10, "every": 1, "learn_rounds": None, "claims": None,
        "described": {"environment": {}, "policy": {}},
    } | head  # fmt: skip
    metadata["id"] = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()[:32]
    n = len(columns["round"])
    whole = ("round", "action", "stage", "n_actions", "n_covered")
    table = pa.table(
        {
            "environment": pa.array([environment] * n).dictionary_encode(),
            "policy": pa.array([policy] * n).dictionary_encode(),
            "seed": pa.array([seed] * n, pa.int64()),
            **{
                name: pa.array(np.asarray(column), pa.int64() if name in whole else pa.float64())
                for name, column in columns.items()
            },
        }
    ).replace_schema_metadata({b"kernelbandits": json.dumps(metadata).encode()})
    for part in ("jobs", "timings"):
        (Path(folder) / part).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "jobs" / f"{metadata['id']}.parquet").write_bytes(to_parquet(table))
    if seconds is not None:
        times = pa.table({"round": pa.array(columns["round"], pa.int64()), "seconds": pa.array(seconds, pa.float64())})
        (Path(folder) / "timings" / f"{metadata['id']}.parquet").write_bytes(to_parquet(times))
    return metadata["id"]


def write_head(folder, jobs, **values):
    """study.json."""
    usual = {
        "format": FORMAT, "name": "a study", "study": {"horizon": 10}, "horizon": 10, "seeds": [0, 1], "every": 1,
        "versions": {"kernelbandits": "0.1", "python": "3.12"}, "machine": {"processor": "abacus"}, "jobs": jobs,
    }  # fmt: skip
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "study.json").write_text(json.dumps(usual | values), encoding="utf-8")


def simple_columns(regret, *, total_reward=None, n_covered=-1, rounds=None, inflation=None):
    """A job made of one curve: the regret after each recorded round; without inflation, as an earlier version wrote."""
    regret = np.asarray(regret, dtype=np.float64)
    rounds = np.arange(1, len(regret) + 1) if rounds is None else np.asarray(rounds)
    total = rounds - regret if total_reward is None else np.asarray(total_reward, dtype=np.float64)
    unknown = ("expected", "best", "propensity", "mean", "width", "exploration")
    return {
        "round": rounds,
        "action": np.zeros(len(rounds), dtype=int),
        "reward": np.zeros(len(rounds)),
        **{name: np.full(len(rounds), np.nan) for name in unknown},
        "stage": np.full(len(rounds), -1),
        "n_actions": np.full(len(rounds), 2),
        "log_det_gain": np.log1p(rounds.astype(float)),
        **({} if inflation is None else {"inflation": np.asarray(inflation, dtype=np.float64)}),
        "total_reward": total,
        "regret": regret,
        "potential": regret + 1.0,
        "n_covered": np.full(len(regret), n_covered) if np.isscalar(n_covered) else n_covered,
        "effective_dimension": np.where(rounds % 3 == 0, 2.0, np.nan),
    }


def play(folder, *, environments, policies, horizon, seeds, every=1, **head):
    """Simulate everything and write it; policies: label -> (make, head of the job)."""
    jobs = []
    for environment, world in environments.items():
        for label, (make, metadata) in policies.items():
            for seed in seeds:
                policy = make(seed)
                trace = simulate(world, policy, horizon=horizon, seed=seed)
                columns = job_columns(trace, every=every, dimensions=metadata.get("dimensions", ()))
                seconds = np.diff(np.append(0.0, np.cumsum(trace.seconds)[columns["round"] - 1]))
                seconds /= np.diff(columns["round"], prepend=0)
                described = {"environment": world.describe(), "policy": policy.describe()}
                jobs.append(
                    write_job(
                        folder,
                        environment=environment,
                        policy=label,
                        seed=seed,
                        columns=columns,
                        seconds=seconds,
                        horizon=horizon,
                        every=every,
                        described=described,
                        **{name: value for name, value in metadata.items() if name != "dimensions"},
                    )
                )
    write_head(folder, jobs, horizon=horizon, seeds=list(seeds), every=every, **head)
    return jobs
