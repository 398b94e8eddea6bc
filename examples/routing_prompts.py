"""Route prompts among language models under a spending limit: `python examples/routing_prompts.py`.

Prompts are texts, models have features and prices, the bill of a call comes at once and its quality score later.
Everything is simulated: no model is called and nothing is fetched. With the folder of data sets in the environment
variable KERNELBANDITS_DATA, the prompts are the titles of AG News; without it they are made here.
"""

import csv
import gzip
import os
import random
import zlib
from pathlib import Path

import numpy as np

import kernelbandits as kb
from kernelbandits import evaluation
from kernelbandits.adapters import CachedEncoder
from kernelbandits.kernels import Gaussian, PairProduct

MODELS = {  # price in cents per 1,000 tokens, and skill by subject, which the policy does not see
    "canned": (0.0, {"code": 0.05, "science": 0.05, "sports": 0.05, "news": 0.05}),
    "tiny": (0.05, {"code": 0.25, "science": 0.45, "sports": 0.70, "news": 0.65}),
    "coder": (0.4, {"code": 0.90, "science": 0.80, "sports": 0.30, "news": 0.35}),
    "writer": (0.4, {"code": 0.30, "science": 0.50, "sports": 0.85, "news": 0.85}),
    "large": (2.0, {"code": 0.95, "science": 0.95, "sports": 0.92, "news": 0.92}),
}
NAMES = list(MODELS)
PRICES = np.array([price for price, _ in MODELS.values()])
FEATURES = np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0], [2, 0, 1], [3, 1, 1]])  # size, tuned for code, tuned for prose
MOST_TOKENS = 1_000

VERBS = {
    "code": ("fix", "refactor", "test", "explain"),
    "science": ("explain", "derive", "compare", "estimate"),
    "sports": ("summarize", "report on", "preview", "rank"),
    "news": ("summarize", "report on", "translate", "shorten"),
}
THINGS = {
    "code": ("python function", "sql query", "failing unit test", "regular expression", "race condition", "type error"),
    "science": ("orbit of a comet", "protein folding", "entropy of a gas", "carbon dating", "laser", "new vaccine"),
    "sports": ("football final", "tennis match", "olympic sprint", "transfer of a striker", "cup draw", "late goal"),
    "news": (
        "election result",
        "trade talks",
        "central bank decision",
        "flood",
        "peace summit",
        "strike at an airport",
    ),
}
SUBJECTS = {"World": "news", "Sports": "sports", "Business": "code", "Sci/Tech": "science"}  # of AG News, as stand-ins


def made_prompts(n_prompts, draw):
    """Prompts with their subjects, made of a verb and a thing."""
    for _ in range(n_prompts):
        subject = draw.choice(sorted(THINGS))
        verb, thing, other = draw.choice(VERBS[subject]), *draw.sample(THINGS[subject], 2)
        yield f"{verb} the {thing}" + draw.choice(("", f" and the {other}", " in one sentence")), subject


def prompts(n_prompts, draw):
    """Titles of AG News if there is the file, else prompts made here."""
    path = Path(os.environ.get("KERNELBANDITS_DATA", "")) / "agnews" / "agnews_test.csv.gz"
    if not path.is_file():
        return list(made_prompts(n_prompts, draw))
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [(row["title"], SUBJECTS[row["class"]]) for row in csv.DictReader(file)]
    return draw.sample(rows, n_prompts)


def hashed(texts, n_columns=128):
    """A tiny encoder: words and their beginnings, counted in columns by a checksum. Use a real one, if you have it."""
    rows = np.zeros((len(texts), n_columns))
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            for part in {word, word[:4]}:
                row[zlib.crc32(part.encode()) % n_columns] += 1.0
    return rows


def main(n_prompts=1_200, allowance=200.0, seed=0):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    encoder = CachedEncoder(hashed, size=2_000, normalized=True)  # or CachedEncoder(SentenceTransformer("…"))
    kernel = PairProduct(Gaussian(length_scale=0.7) + 0.3, Gaussian(length_scale=1.5))
    router = kb.Paced(
        kb.Mixed(
            kb.KernelUCB(kernel, regularization=0.3, exploration=0.2, reward_range=(0, 1)), epsilon=0.05, seed=seed
        ),
        allowance=allowance,
        horizon=n_prompts,
        observed_costs=True,
    )
    waiting, log, truth, quality, counts = [], [], [], 0.0, dict.fromkeys(NAMES, 0)
    for t, (text, subject) in enumerate(prompts(n_prompts, draw)):
        while waiting and waiting[0][0] <= t:  # scores of earlier answers come in
            _, decision, score = waiting.pop(0)
            router.learn(decision, score)
        pairs = kb.Pairs(encoder.one(text), FEATURES)
        tokens = len(text.split()) + MOST_TOKENS
        decision = router.choose(kb.WithCosts(pairs, PRICES * tokens / 1_000), ids=NAMES, id=f"prompt {t}")
        router.expect(decision)
        skill = MODELS[decision.item][1][subject]
        answer = rng.integers(100, MOST_TOKENS)
        router.charge(decision, PRICES[decision.action] * (len(text.split()) + answer) / 1_000)  # the bill
        score = float(np.clip(rng.normal(skill, 0.15), 0.0, 1.0))
        waiting.append((t + int(rng.integers(5, 40)), decision, score))
        waiting.sort(key=lambda one: one[0])
        quality, counts[decision.item] = quality + skill, counts[decision.item] + 1
        log.append((pairs, decision, score))
        truth.append([skills[subject] for _, skills in MODELS.values()])
    for _, decision, score in waiting:
        router.learn(decision, score)
    print(f"{n_prompts:,} prompts, {encoder.n_encoded:,} encoded; spent {router.spent:.1f} of {allowance:.1f} cents")
    print("calls:", ", ".join(f"{name} {count}" for name, count in counts.items()))
    print(f"mean quality: {quality / n_prompts:.3f}")
    fixed = np.mean(truth, axis=0)
    bills = PRICES * (np.mean([len(text.split()) for text, _ in prompts(n_prompts, random.Random(seed))]) + 550) / 1_000
    for name, mean, bill in zip(NAMES, fixed, bills, strict=True):
        print(f"  always {name}: {mean:.3f} for {bill * n_prompts:.1f} cents")
    print(f"  best mix of two at random, for the limit: {best_mix(fixed, bills * n_prompts, allowance):.3f}")
    evaluate(log, truth, kernel)


def best_mix(means, bills, limit):
    """The best mean quality without looking at prompts: one model, or two at random, for what may be spent."""
    pairs = list(zip(bills, means, strict=True))
    mixes = [mean for bill, mean in pairs if bill <= limit]
    for less, low in pairs:
        for more, high in pairs:
            if less <= limit < more:
                mixes.append(low + (high - low) * (limit - less) / (more - less))
    return max(mixes)


def evaluate(log, truth, kernel):
    """What would another router have been worth? From the log alone, beside the truth of the simulation."""
    whole = [place for place, (_, decision, _) in enumerate(log) if decision.n_actions == len(NAMES)]  # all affordable
    first, second = whole[: len(whole) // 2], whole[len(whole) // 2 :]
    candidate = kb.KernelUCB(kernel, regularization=0.3, exploration=0.0)  # prices play no part in it
    candidate.warm_start(as_log(log, first))
    later = as_log(log, second)
    model = evaluation.DirectMethod(kernel, 0.3)
    estimate = evaluation.DoublyRobust(model).estimate(later, candidate)
    chosen = [candidate.choose(log[place][0]).action for place in second]
    value = np.mean([truth[place][action] for place, action in zip(second, chosen, strict=True)])
    print(
        f"without a limit, by the log: {estimate.value:.3f} ± {1.96 * estimate.standard_error:.3f}; true: {value:.3f}"
    )


def as_log(log, places):
    rows = [log[place] for place in places]
    return evaluation.Log(
        [pairs for pairs, _, _ in rows],
        actions=[decision.action for _, decision, _ in rows],
        propensities=[decision.propensity for _, decision, _ in rows],
        rewards=[score for _, _, score in rows],
    )


if __name__ == "__main__":
    main()
