"""Our estimators beside those of the Open Bandit Pipeline (Saito et al., 2021) on the Open Bandit Dataset sample.

Not run by pytest: the two packages need different versions of Python, so each says its values in its own environment
and the second one compares.

    python tests/comparisons/open_bandit_pipeline.py ours FOLDER values.json      # where kernelbandits is installed
    python tests/comparisons/open_bandit_pipeline.py theirs FOLDER values.json studies/open_bandit.json    # obp

FOLDER holds `random_all.csv.gz`, `bts_all.csv.gz` and so on: columns item_id, position, click, propensity_score. An
action is an item at a position, and the reward model both use is the ridge mean of each action, Σ r / (n + 1): ours is
`DirectMethod(Delta(), 1.0)`, theirs is counted here and handed to obp.
"""

import csv
import gzip
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

LOGS = ["random_all", "random_men", "random_women", "bts_all", "bts_men", "bts_women"]
THRESHOLD = 2.0


def read(path):
    """Items, positions, clicks and propensities of a log, and how many items there are."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [(r["item_id"], r["position"], r["click"], r["propensity_score"]) for r in csv.DictReader(lines)]
    items, positions, clicks, propensities = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    items, positions = items.astype(int), positions.astype(int) - 1
    return items, positions, clicks, propensities, items.max() + 1


def targets(n_items):
    """Probabilities of the policies that are judged: all items alike, and later items ever less."""
    falling = 1.0 / (1.0 + np.arange(n_items))
    return {"uniform": np.full(n_items, 1.0 / n_items), "falling": falling / falling.sum()}


def our_values(path):
    """Values by target and estimator."""
    from kernelbandits.environments import Log
    from kernelbandits.evaluation import IPS, DirectMethod, DoublyRobust, SelfNormalizedIPS, Switch
    from kernelbandits.kernels import Delta

    class Fixed:
        """A policy of given probabilities."""

        def __init__(self, probabilities):
            self._probabilities = probabilities

        def probabilities_many(self, rounds, *, ids=None):
            return [self._probabilities for _ in rounds]

    items, positions, clicks, propensities, n_items = read(path)
    sets = [[position * n_items + item for item in range(n_items)] for position in range(positions.max() + 1)]
    log = Log([sets[position] for position in positions], items, propensities, clicks)
    model = DirectMethod(Delta(), 1.0)
    estimators = {
        "IPS": IPS(),
        "SNIPS": SelfNormalizedIPS(),
        "DM": model,
        "DR": DoublyRobust(model, folds=1),
        "Switch-DR": Switch(model, THRESHOLD, folds=1),
    }
    return {
        name: {label: estimator.estimate(log, Fixed(shares)).value for label, estimator in estimators.items()}
        for name, shares in targets(n_items).items()
    }


def their_values(path):
    """The same from obp."""
    from obp import ope

    items, positions, clicks, propensities, n_items = read(path)
    cells = positions * n_items + items
    n_cells = (positions.max() + 1) * n_items
    sums, counts = np.bincount(cells, clicks, minlength=n_cells), np.bincount(cells, minlength=n_cells)
    model = (sums / (counts + 1.0)).reshape(-1, n_items)[positions][:, :, None]
    known = {"reward": clicks, "action": items, "pscore": propensities, "estimated_rewards_by_reg_model": model}
    estimators = {
        "IPS": ope.InverseProbabilityWeighting(),
        "SNIPS": ope.SelfNormalizedInverseProbabilityWeighting(),
        "DM": ope.DirectMethod(),
        "DR": ope.DoublyRobust(),
        "Switch-DR": ope.SwitchDoublyRobust(lambda_=THRESHOLD),
    }
    return {
        name: {
            label: estimator.estimate_policy_value(
                action_dist=np.tile(shares, (len(items), 1))[:, :, None], position=np.zeros_like(items), **known
            )
            for label, estimator in estimators.items()
        }
        for name, shares in targets(n_items).items()
    }


def compare(ours, theirs):
    """Print both values and their largest difference."""
    largest = 0.0
    for log, target, label in [(g, t, e) for g in theirs for t in theirs[g] for e in theirs[g][t]]:
        our_value, their_value = ours[log][target][label], float(theirs[log][target][label])
        largest = max(largest, abs(our_value - their_value))
        print(f"{log:13s} {target:8s} {label:10s} {our_value:.15f} {their_value:.15f}")
    print(f"largest difference {largest:.2e}")
    return largest


def main(who, folder, values, result=None):
    """Write our values, or read them and compare; what was found goes into `result`, with versions."""
    paths = {name: Path(folder) / f"{name}.csv.gz" for name in LOGS}
    if who == "ours":
        Path(values).write_text(json.dumps({name: our_values(path) for name, path in paths.items()}), encoding="utf-8")
    else:
        ours = json.loads(Path(values).read_text("utf-8"))
        largest = compare(ours, {name: their_values(path) for name, path in paths.items()})
        if result is not None:
            versions = {"obp": version("obp"), "numpy": version("numpy"), "python": platform.python_version()}
            found = json.dumps({**versions, "largest_difference": largest}, indent=2)
            Path(result).write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
