"""Write the files of the current formats: run `python -m data.write` in tests/ after a format version is raised.

A file that exists is never written again: it is what users of that version have. A new policy adds a file.
"""

import json
from pathlib import Path

import numpy as np

from kernelbandits import __version__
from kernelbandits._files import VERSION
from kernelbandits.errors import CannotSave
from kernelbandits.experiments import run
from kernelbandits.experiments.study import FORMAT
from reliability.policies import CASES
from small_studies import small_study

HERE = Path(__file__).parent
N_LEARNED = 8


def answers(policy, case):
    """What a policy that is read from a file has to answer as before."""
    decision = policy.choose(case.contexts(N_LEARNED), id="stored")
    return {
        "action": int(decision.action),
        "propensity": decision.propensity,
        "probabilities": np.asarray(policy.probabilities(case.contexts(N_LEARNED))).tolist(),
        "round_index": policy.round_index,
        "pending": sorted(policy.pending),
        "expired": [one.id for one in policy.copy().expire(10.0)],
        "description": policy.describe(),
    }


def write_policies(folder):
    folder.mkdir(exist_ok=True)
    listed = folder / "expected.json"
    expected = json.loads(listed.read_text())["policies"] if listed.exists() else {}
    for name, case in CASES.items():
        if name in expected:
            continue
        policy = case.make()
        case.learn(policy, N_LEARNED)
        policy.expect(policy.choose(case.contexts(0), id="pending"), expires=5.0)
        try:
            policy.save(folder / f"{name.replace(' ', '-')}.kb")
        except CannotSave:
            continue
        expected[name] = answers(policy, case)
        print(f"{name} written.")
    listed.write_text(json.dumps({"written_by": __version__, "policies": expected}, indent=1))


def write_results(folder):
    results = run(small_study(), folder, workers=1)
    expected = [{"policy": one.policy, "regret": one.regret.mean, "n_runs": one.n_runs} for one in results.summary()]
    (folder / "expected.json").write_text(json.dumps({"written_by": __version__, "results": expected}, indent=1))


if __name__ == "__main__":
    write_policies(HERE / f"policies-{VERSION}")
    if not (HERE / f"results-{FORMAT}").exists():
        write_results(HERE / f"results-{FORMAT}")
