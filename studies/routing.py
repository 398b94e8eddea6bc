"""Prompts routed among language models under a spending limit: kernel, linear, neural-linear, and a fixed choice."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from kernelbandits import Pairs, WithCosts
from kernelbandits.adapters import CachedEncoder
from kernelbandits.environments.datasets.files import read_table
from kernelbandits.experiments import Curve
from kernelbandits.experiments.backends import n_workers_for, worker_pool
from kernelbandits.experiments.plotting.curves import curve_grid
from kernelbandits.experiments.plotting.figures import ReportFigure
from kernelbandits.experiments.reports.tables import markdown_rows
from kernelbandits.kernels import Gaussian, PairProduct, Precomputed, TfIdf
from kernelbandits.policies import KernelUCB, LinUCB, Paced, UniformRandom
from kernelbandits.types import Decision, Matrix, Vector
from studies.budgets import Run, best_feasible
from studies.curves import as_curve, curve_numbers, ends_in_words, repeats
from studies.pictures import markdown_of

if TYPE_CHECKING:
    from kernelbandits.types import Points

TITLE: Final = "Routing prompts"

HORIZON, N_SEEDS, WINDOW = 600, 5, 100
N_FOR_ENCODER: Final = 2_000
"""Titles that fit the encoder, apart from those that are routed."""

CLASSES: Final = ("World", "Sports", "Business", "Sci/Tech")
MODELS: Final[Mapping[str, tuple[float, tuple[float, ...]]]] = {
    "canned": (0.0, (0.05, 0.05, 0.05, 0.05)),
    "tiny": (0.05, (0.65, 0.70, 0.25, 0.45)),
    "coder": (0.4, (0.35, 0.30, 0.90, 0.80)),
    "writer": (0.4, (0.85, 0.85, 0.30, 0.50)),
    "large": (2.0, (0.92, 0.92, 0.95, 0.95)),
}
"""Price of 1,000 tokens in cents, and mean quality by class of title, which no policy observes."""

NAMES: Final = list(MODELS)
PRICES: Final = np.array([price for price, _ in MODELS.values()])
SKILLS: Final = np.array([skills for _, skills in MODELS.values()])
FEATURES: Final = np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0], [2, 0, 1], [3, 1, 1]], dtype=float)
"""Size, tuned for technical text, tuned for prose."""

NOISE: Final = 0.15
SHARE: Final = 0.25
"""The allowance, as a share of what the best model for each prompt costs."""

RETRAINED: Final = 200
"""Rounds after which the network is retrained."""


class Task(NamedTuple):
    """Prompts with embeddings and costs, expected quality of every model, scores, and when these are known."""

    texts: list[str]
    rows: Matrix
    costs: Matrix
    expected: Matrix
    scores: Matrix
    known_at: Vector
    allowance: float
    corpus: list[str]


def task(seed: int, table: Mapping[str, Any]) -> Task:
    """Titles in random order; the encoder is fitted to others."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table["title"]))
    corpus = [str(table["title"][place]) for place in order[:N_FOR_ENCODER]]
    routed = order[N_FOR_ENCODER : N_FOR_ENCODER + HORIZON]
    texts = [str(table["title"][place]) for place in routed]
    encoder = make_pipeline(TfidfVectorizer(sublinear_tf=True), TruncatedSVD(64, random_state=0)).fit(corpus)
    rows = CachedEncoder(encoder, size=HORIZON, normalized=True)(texts)
    expected = SKILLS.T[[CLASSES.index(table["class"][place]) for place in routed]]
    tokens = rng.integers(200, 1_000, size=HORIZON)
    costs = tokens[:, None] * PRICES / 1_000.0
    scores = np.clip(expected + NOISE * rng.normal(size=expected.shape), 0.0, 1.0)
    known_at = np.arange(HORIZON) + rng.integers(5, 40, size=HORIZON).astype(float)
    allowance = SHARE * float(costs[np.arange(HORIZON), expected.argmax(axis=1)].sum())
    return Task(texts, rows, costs, expected, scores, known_at, allowance, corpus)


class Router(Protocol):
    """Chooses a model for the prompt of a round, and gets its score later."""

    def route(self, t: int) -> int:
        """Return the chosen row of `MODELS`."""

    def score(self, t: int, score: float) -> None:
        """Learn the score of round t."""


class Bandit:
    """A policy in `Paced`; `points` gives the actions of a round."""

    def __init__(self, policy: Paced, points: Callable[[int], Points], given: Task) -> None:
        self._policy, self._points, self._given = policy, points, given
        self._waiting: dict[int, Decision] = {}

    def route(self, t: int) -> int:
        """Choose, and mark as pending."""
        decision = self._policy.choose(WithCosts(self._points(t), self._given.costs[t]), ids=NAMES)
        self._policy.expect(decision)
        self._waiting[t] = decision
        return decision.action

    def score(self, t: int, score: float) -> None:
        """Learn."""
        self._policy.learn(self._waiting.pop(t), score)


class NeuralLinear:
    """LinUCB on the last hidden layer of a network of scikit-learn, retrained every `retrained` rounds."""

    def __init__(self, given: Task, *, retrained: int = RETRAINED) -> None:
        self._given, self._network, self._retrained = given, None, retrained
        self._decisions: dict[int, Decision] = {}
        self._known: dict[int, float] = {}
        self._policy = self._linear(given.allowance, len(given.texts), 0.0)
        self._since = 0  # first round of this policy

    def _linear(self, allowance: float, horizon: int, price: float) -> Paced:
        return Paced(_lin_ucb("neural-linear", "shared"), allowance=allowance, horizon=horizon, price=price)

    def _inputs(self, t: int) -> Matrix:
        row = np.broadcast_to(self._given.rows[t], (len(NAMES), self._given.rows.shape[1]))
        return np.column_stack([row, np.eye(len(NAMES)), FEATURES])

    def _features(self, inputs: Matrix) -> Matrix:
        network: Any = self._network
        hidden = inputs
        if network is not None:
            for weights, shift in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
                hidden = np.maximum(hidden @ weights + shift, 0.0)
        return np.column_stack([hidden, np.ones(len(hidden))])

    def route(self, t: int) -> int:
        """Train the network if it is time, then choose."""
        if t and t % self._retrained == 0:
            self._train(t)
        contexts = WithCosts(self._features(self._inputs(t)), self._given.costs[t])
        decision = self._decisions[t] = self._policy.choose(contexts, ids=NAMES)
        self._policy.expect(decision)
        return decision.action

    def score(self, t: int, score: float) -> None:
        """Learn; as history, if the decision was made with the network before."""
        self._known[t] = score
        if t >= self._since:
            self._policy.learn(self._decisions[t], score)
        else:
            self._policy.warm_start(self._features(self._inputs(t))[[self._decisions[t].action]], [score])

    def _train(self, t: int) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        inputs = np.array([self._inputs(one)[self._decisions[one].action] for one in self._known])
        scores = np.array(list(self._known.values()))
        network = MLPRegressor(hidden_layer_sizes=(64, 32), alpha=1e-3, max_iter=300, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is retrained soon
            self._network = network.fit(inputs, scores)
        self._policy = self._linear(self._policy.left, len(self._given.texts) - t, self._policy.current_price)
        self._since = t
        self._policy.warm_start(self._features(inputs), scores)


class Fixed:
    """One model as long as the allowance pays for it, then the free one."""

    def __init__(self, model: int, given: Task) -> None:
        self._model, self._left, self._costs = model, given.allowance, given.costs

    def route(self, t: int) -> int:
        """Return the model, or the free one."""
        cost = float(self._costs[t, self._model])
        if cost > self._left:
            return 0
        self._left -= cost
        return self._model

    def score(self, t: int, score: float) -> None:
        """Learn nothing."""


EXPLORATION: Final = {"KernelUCB": 0.05, "LinUCB": 0.05, "neural-linear": 0.05}
"""Widths added to means: the best of 0.05, 0.2 and 0.5 on seed 1000, which is not reported."""

BEST: Final = "best feasible"
COLORS: Final = {
    BEST: "black",
    "KernelUCB, embeddings": "blue",
    "KernelUCB, tf-idf of the text": "purple",
    "LinUCB, one model each": "green",
    "neural-linear": "orange",
    "best fixed choice": "red",
    "random": "gray",
}


def _lin_ucb(name: str, model: Any) -> LinUCB:
    return LinUCB(model=model, exploration=EXPLORATION[name], reward_range=(0, 1))


def _kernel_ucb(kernel: PairProduct) -> KernelUCB:
    return KernelUCB(kernel, regularization=0.3, exploration=EXPLORATION["KernelUCB"], reward_range=(0, 1))


def _router(name: str, given: Task, seed: int) -> Router:
    """Return one of the routers, untrained."""
    limits: Any = {"allowance": given.allowance, "horizon": len(given.texts)}
    models = Gaussian(length_scale=1.5)
    match name:
        case "KernelUCB, embeddings":
            kernel = PairProduct(Gaussian(length_scale=0.7) + 0.3, models)
            return Bandit(Paced(_kernel_ucb(kernel), **limits), lambda t: Pairs(given.rows[t], FEATURES), given)
        case "KernelUCB, tf-idf of the text":
            of_words = TfIdf(given.corpus, analyzer="word", n=1, lowercase=True)
            kernel = PairProduct(Precomputed(of_words.gram(given.texts) + 0.3), models)  # a prompt is its place
            return Bandit(Paced(_kernel_ucb(kernel), **limits), lambda t: Pairs(t, FEATURES), given)
        case "LinUCB, one model each":
            inner = _lin_ucb("LinUCB", "disjoint")
            rows = np.column_stack([given.rows, np.ones(len(given.rows))])
            shape = (len(NAMES), rows.shape[1])
            return Bandit(Paced(inner, **limits), lambda t: np.array(np.broadcast_to(rows[t], shape)), given)
        case "neural-linear":
            return NeuralLinear(given)
    return Bandit(Paced(UniformRandom(seed=seed), allowance=given.allowance), lambda _: FEATURES, given)


def route(router: Router, given: Task) -> tuple[Vector, float]:
    """Expected quality of the choices of every round, and what they cost; scores arrive late."""
    quality, spent = np.zeros(len(given.texts)), 0.0
    waiting: list[tuple[int, int, float]] = []
    for t in range(len(given.texts)):
        for due in sorted(one for one in waiting if one[0] <= t):
            waiting.remove(due)
            router.score(due[1], due[2])
        action = router.route(t)
        quality[t], spent = given.expected[t, action], spent + float(given.costs[t, action])
        waiting.append((int(given.known_at[t]) + 1, t, float(given.scores[t, action])))
    return quality, spent


def best_rounds(given: Task) -> Vector:
    """Expected quality of every round at the price of the linear program over all rounds, without the split round."""
    nothing = np.zeros(len(given.texts))
    _, price = best_feasible(Run(given.rows, given.costs, given.costs, given.expected, nothing), given.allowance)
    chosen = (given.expected - price * given.costs).argmax(axis=1)
    return np.asarray(given.expected[np.arange(len(chosen)), chosen])


def collect(workers: int | None) -> dict[str, Any]:
    """Quality, spending and time of every router."""
    with worker_pool(n_workers_for(N_SEEDS, workers)) as pool:
        found = list(pool.map(_runs, range(N_SEEDS)))
    rows, curves = [], []
    for name in COLORS:
        runs = [of_seed[name] for of_seed in found]
        quality = np.array([run["quality"] for run in runs])
        windows = quality.reshape(len(runs), -1, WINDOW).mean(axis=2)
        curves.append({"policy": name, **curve_numbers(windows, range(WINDOW, HORIZON + 1, WINDOW))})
        row: dict[str, Any] = {"policy": name, "models": sorted({run["model"] for run in runs if run["model"]})}
        shares = np.array([run["share"] for run in runs])
        for label, values in (
            ("quality", quality.mean(axis=1)),
            ("last", windows[:, -3:].mean(axis=1)),
            ("share", shares),
        ):
            row[label] = float(values.mean())
            row[f"{label}_deviation"] = float(values.std(ddof=1))
        row["most_spent"] = max(run["spent"] for run in runs)
        row["milliseconds"] = 1_000.0 * float(np.median([run["seconds"] for run in runs])) / HORIZON
        rows.append(row)
    return {"rows": rows, "curves": curves}


def _runs(seed: int) -> dict[str, dict[str, Any]]:
    given = task(seed, _table())
    return {name: _run(name, given, seed) for name in COLORS}


def _run(name: str, given: Task, seed: int) -> dict[str, Any]:
    best, model = best_rounds(given), ""
    start = time.process_time()
    if name == BEST:
        quality, spent = best, given.allowance
    elif name == "best fixed choice":
        runs = [(*route(Fixed(place, given), given), NAMES[place]) for place in range(len(NAMES))]
        quality, spent, model = max(runs, key=lambda run: float(run[0].sum()))
    else:
        quality, spent = route(_router(name, given, seed), given)
    return {
        "quality": quality,
        "spent": spent / given.allowance,
        "share": float(quality.sum() / best.sum()),
        "seconds": time.process_time() - start,
        "model": model,
    }


def _table() -> Mapping[str, Any]:
    folder = Path(os.environ.get("KERNELBANDITS_DATA", "data"))
    return read_table(folder / "agnews" / "agnews_test.csv.gz", name="agnews", words=("class", "title"))


def drawing(found: Mapping[str, Any]) -> ReportFigure:
    """Mean quality over the last rounds."""
    curves = [as_curve(curve, label=curve["policy"], color=COLORS[curve["policy"]]) for curve in found["curves"]]
    shown: dict[str, list[Curve]] = {"AG News titles": curves}
    return ReportFigure(
        name="routing",
        title=TITLE,
        section=TITLE,
        caption=f"Mean quality over the last {WINDOW} prompts. {repeats(found['curves'])}",
        alt_text=(
            f"Mean quality over the last {WINDOW} prompts of six routers and of the best feasible. At the end: "
            f"{ends_in_words(shown, '.2f')}."
        ),
        draw=partial(curve_grid, shown, y_label="Mean quality"),
    )


def render(found: Mapping[str, Any]) -> str:
    """The section."""
    table = [["router", "mean quality", f"last {3 * WINDOW}", "of the best feasible", "most spent", "ms a prompt"]]
    for row in found["rows"]:
        models = f" ({', '.join(row['models'])})" if row["models"] else ""
        cells = [f"{row[name]:.3f} ± {row[f'{name}_deviation']:.3f}" for name in ("quality", "last", "share")]
        is_router = row["policy"] not in (BEST, "best fixed choice")
        milliseconds = f"{row['milliseconds']:.2f}" if is_router else ""
        table.append([f"{row['policy']}{models}", *cells, f"{row['most_spent']:.3f}", milliseconds])
    prices = ", ".join(f"{name} {price:g}" for name, (price, _) in MODELS.items())
    return f"""\
Each of {HORIZON:,} prompts, titles of AG News, goes to one of five models. Quality is simulated: its mean depends on
the class of the title, which no router observes, and its noise has standard deviation {NOISE:g}. Prices in cents per
1,000 tokens: {prices}. Scores arrive 5 to 39 prompts later. The allowance is {SHARE:.0%} of what the best model for
each prompt would cost, and every router is held to it by `Paced`. Embeddings are 64 columns of latent semantic
analysis, fitted to {N_FOR_ENCODER:,} other titles. *Neural-linear* is LinUCB on the last hidden layer of a network
(`MLPRegressor`, 64 and 32 units) over embedding, model and features, retrained every {RETRAINED} prompts. The *best
fixed choice* uses one model until the allowance ends, the free one afterwards; which one is best was seen in hindsight.
The *best feasible* knows all mean qualities and costs beforehand. Exploration was chosen among 0.05, 0.2 and 0.5 on
another seed. Mean ± standard deviation over {N_SEEDS} seeds; processor time of choosing and learning, with training.

{markdown_of(drawing(found))}

{markdown_rows(table, n_text_columns=1)}"""
