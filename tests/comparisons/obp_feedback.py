"""Our dictionaries in the Open Bandit Pipeline (Saito et al., 2021), and its dictionaries here.

Not run by pytest: the two packages need different versions of Python, so files go from one environment to the other.

    python tests/comparisons/obp_feedback.py export ours.npz                    # where kernelbandits is installed
    python tests/comparisons/obp_feedback.py judge ours.npz theirs.npz          # where obp is
    python tests/comparisons/obp_feedback.py compare ours.npz theirs.npz        # where kernelbandits is

The first writes a log by `to_obp`. The second hands it to obp's `OffPolicyEvaluation` with obp's own regression model,
does the same with feedback that obp draws itself, and writes what its model and its estimators said. The third reads
both by `from_obp` and compares estimators that lean on the same predictions; `Switch` that trusts no weight is their
direct method.
"""

import sys
from importlib.metadata import version

import numpy as np

THRESHOLD = 2.0


def target(context, n_actions):
    """Probabilities of the policy that is judged: a softmax that turns with the context."""
    scores = np.cos(np.arange(1, n_actions + 1) * (0.5 + context.sum(axis=1, keepdims=True)))
    shares = np.exp(2.0 * scores)
    return shares / shares.sum(axis=1, keepdims=True)


def export(ours):
    """A log of a world with contexts, as feedback."""
    from kernelbandits import Pairs
    from kernelbandits.adapters import to_obp
    from kernelbandits.environments import Log

    rng = np.random.default_rng(7)
    actions = rng.normal(size=(4, 3))
    contexts = rng.normal(size=(1_000, 2))
    shares = np.exp(contexts @ rng.normal(size=(2, 4)))
    shares /= shares.sum(axis=1, keepdims=True)
    chosen = np.array([rng.choice(4, p=row) for row in shares])
    means = np.tanh(contexts @ rng.normal(size=(2, 3)) @ actions.T)
    shown = np.arange(1_000), chosen
    log = Log([Pairs(row, actions) for row in contexts], chosen, shares[shown], means[shown] + rng.normal(size=1_000))
    np.savez(ours, **without_none(to_obp(log, expected_reward=means)))


def judge(ours, theirs):
    """What obp says of our feedback and of its own."""
    from obp.dataset import SyntheticBanditDataset, linear_reward_function

    own = SyntheticBanditDataset(
        n_actions=5, dim_context=3, reward_type="continuous", reward_function=linear_reward_function, random_state=3
    ).obtain_batch_bandit_feedback(n_rounds=800)
    result = judged(loaded(ours), "ours") | judged(own, "own")
    kept = {f"feedback_{name}": value for name, value in without_none(own).items() if name != "pi_b"}
    np.savez(theirs, obp=version("obp"), **result, **kept)


def judged(feedback, label):
    """Predictions of obp's regression model, and the value by each estimator."""
    from obp import ope
    from sklearn.linear_model import Ridge

    action_dist = target(feedback["context"], feedback["n_actions"])[:, :, None]
    model = ope.RegressionModel(
        n_actions=feedback["n_actions"], base_model=Ridge(), action_context=feedback["action_context"]
    )
    predicted = model.fit_predict(
        context=feedback["context"], action=feedback["action"], reward=feedback["reward"], n_folds=3, random_state=1
    )
    evaluation = ope.OffPolicyEvaluation(
        bandit_feedback=feedback,
        ope_estimators=[
            ope.InverseProbabilityWeighting(),
            ope.SelfNormalizedInverseProbabilityWeighting(),
            ope.DirectMethod(),
            ope.DoublyRobust(),
            ope.SwitchDoublyRobust(lambda_=THRESHOLD),
        ],
    )
    values = evaluation.estimate_policy_values(action_dist, estimated_rewards_by_reg_model=predicted)
    named = {f"{label}_{name}": value for name, value in values.items()}
    return {f"{label}_predicted": predicted[:, :, 0], **named}


def compare(ours, theirs):
    """Print both values, and the largest difference of all."""
    result = dict(np.load(theirs))
    own = {name.removeprefix("feedback_"): value for name, value in result.items() if name.startswith("feedback_")}
    largest = 0.0
    for label, feedback in (("ours", loaded(ours)), ("own", own)):
        for name, value in our_values(feedback, result[f"{label}_predicted"]).items():
            their_value = float(result[f"{label}_{name}"])
            largest = max(largest, abs(value - their_value))
            print(f"{label:5s} {name:10s} {value:.15f} {their_value:.15f}")
    print(f"largest difference {largest:.2e}, obp {result['obp']}")


def our_values(feedback, predicted):
    """The same estimators here, leaning on obp's predictions."""
    from kernelbandits.adapters import from_obp
    from kernelbandits.evaluation import IPS, DoublyRobust, SelfNormalizedIPS, Switch

    log = from_obp(feedback)
    shares = target(feedback["context"], int(feedback["n_actions"]))
    place = {row.tobytes(): t for t, row in enumerate(feedback["context"])}

    class Known:
        """A policy of these probabilities, and a model of these predictions; rounds are known by their context."""

        def probabilities_many(self, rounds, *, ids=None):
            return [shares[place[points.context.tobytes()]] for points in rounds]

        def fit(self, log):
            return self

        def predict(self, rounds):
            return [predicted[place[points.context.tobytes()]] for points in rounds]

    known = Known()
    estimators = [IPS(), SelfNormalizedIPS(), DoublyRobust(known), Switch(known, THRESHOLD), Switch(known, 0.0)]
    names = ["ipw", "snipw", "dr", "switch-dr", "dm"]
    return {name: estimator.estimate(log, known).value for name, estimator in zip(names, estimators, strict=True)}


def without_none(feedback):
    """What a file of arrays can hold."""
    return {name: value for name, value in feedback.items() if value is not None}


def loaded(path):
    """Feedback as obp takes it: whole numbers for counts, and no positions."""
    feedback = dict(np.load(path))
    counts = {name: int(feedback[name]) for name in ("n_rounds", "n_actions")}
    return {**feedback, **counts, "position": None}


if __name__ == "__main__":
    {"export": export, "judge": judge, "compare": compare}[sys.argv[1]](*sys.argv[2:])
