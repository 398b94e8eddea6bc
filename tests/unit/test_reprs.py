"""Reprs are short whatever an object holds, name no address, and have an HTML form where notebooks show them."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelbandits as kb
from fuzz.baselines import TARGETS, callable_of
from kernelbandits import Pairs
from kernelbandits._text import html_table, short_repr
from kernelbandits.evaluation import ABComparison, ConfidenceSequence
from kernelbandits.kernels import (
    Delta,
    FromCallable,
    Gaussian,
    PairProduct,
    Precomputed,
    SimilarityTable,
    Spectrum,
    TfIdf,
)
from kernelbandits.policies.events import Event
from kernelbandits.types import Plays, Prediction

LONGEST = 1_000
"""Characters of the longest repr. A line of a terminal has about 100."""

OURS = "kernelbandits."

ELSEWHERE = {"evaluation.", "environments.", "experiments.", "adapters."}
"""Packages whose values are data sets, logs and results: their reprs are tested with them."""


def is_ours(made):
    return type(made).__module__.startswith(OURS)


@pytest.mark.parametrize("name", [name for name in TARGETS if not name.startswith(tuple(ELSEWHERE))])
def test_public_objects_are_shown_briefly_and_without_addresses(name):
    made = callable_of(name)(**TARGETS[name].arguments())
    if is_ours(made):
        assert len(repr(made)) <= LONGEST
        assert not re.search(r"0x[0-9a-f]{6}", repr(made))
        assert "\n" not in repr(made)


RNG = np.random.default_rng(0)
MANY = RNG.uniform(size=(3_000, 40))
NAMES = [f"a rather long name of an item, number {row}" for row in range(3_000)]
TABLE = np.eye(500) + 0.5


def trained(contexts, kernel, **arguments):
    policy = kb.KernelUCB(kernel, **arguments)
    for _ in range(3):
        policy.learn(policy.choose(contexts), 0.5)
    return policy


def warmed():
    policy = kb.KernelUCB(Gaussian(length_scale=0.5))
    policy.warm_start(MANY[:400], np.linspace(0.0, 1.0, 400))
    return policy


LARGE = {
    "catalog": lambda: kb.Catalog(MANY, ids=NAMES),
    "catalog without ids": lambda: kb.Catalog(NAMES),
    "view": lambda: kb.Catalog(MANY, ids=NAMES).without(NAMES[:3]).given(MANY[0]),
    "decision": lambda: kb.KernelUCB(Gaussian(length_scale=0.5)).choose(RNG.uniform(size=(3, 5_000))),
    "decision on text": lambda: kb.KernelUCB(Spectrum(n=3)).choose(["word " * 10_000]),
    "decision on a pair": lambda: kb.KernelUCB(PairProduct(Gaussian(length_scale=0.5), Delta())).choose(
        Pairs(MANY[0], NAMES)
    ),
    "decision on sparse rows": lambda: kb.LinUCB().choose(csr_array(MANY)),
    "slate": lambda: kb.KernelUCB(Gaussian(length_scale=0.5)).choose(MANY, k=100, ids=NAMES),
    "plays": lambda: Plays(*[np.zeros(10_000)] * 6),
    "trace": lambda: kb.simulate(kb.environments.Clustered(n_actions=3), kb.UniformRandom(), horizon=100, seed=0),
    "environment of items": lambda: kb.environments.Candidates(MANY, values=MANY[:, 0], n_actions=5),
    "fixed items": lambda: kb.environments.FixedCatalog(MANY, values=MANY[:, 0]),
    "classification": lambda: kb.environments.Classification(MANY, np.arange(3_000) % 7),
    "round": lambda: kb.environments.Round(MANY, lambda action: 0.0, expected=MANY[:, 0]),
    "confidence sequence": lambda: ConfidenceSequence(failure_probability=0.1, reward_range=(0, 1)),
    "comparison": lambda: ABComparison(failure_probability=0.1, reward_range=(0, 1)),
    "prediction": lambda: Prediction(MANY[:, 0], MANY[:, 1]),
    "pairs": lambda: Pairs(MANY[0], NAMES),
    "event": lambda: Event("warm_start", reward=MANY[:, 0], contexts=MANY, ids=NAMES),
    "event of a decision": lambda: Event("learn", kb.LinUCB().choose(RNG.uniform(size=(3, 5_000))), 0.5),
    "policy": warmed,
    "wrapper": lambda: kb.Mixed(kb.Guarded(warmed(), baseline="b" * 500), epsilon=0.1),
    "fixed actions": lambda: kb.PEGE(actions=MANY[:50]),
    "posterior": lambda: warmed().posterior,
    "explanation": lambda: warmed().explain(warmed().choose(MANY[500:510]), most=300),
    "length scales": lambda: Gaussian(length_scale=MANY[:2_000, 0] + 0.1),
    "table": lambda: Precomputed(TABLE),
    "similarities": lambda: SimilarityTable(TABLE, ids=NAMES[:500]),
    "corpus": lambda: TfIdf(NAMES),
    "sum of many": lambda: sum((Gaussian(length_scale=0.1 + k) for k in range(100)), start=Gaussian(length_scale=0.5)),
    "function": lambda: FromCallable(lambda x, z: x @ z.T),
    "policy of a function": lambda: kb.KernelUCB(FromCallable(lambda x, z: x @ z.T)),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_contents_are_shown_briefly(name):
    made = LARGE[name]()
    shown = repr(made)

    assert len(shown) <= LONGEST
    assert shown.startswith(type(made).__name__)
    assert not re.search(r"0x[0-9a-f]{6}", shown)
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (LARGE["catalog"], ["3,000 items", "number 0", "…"]),
        (LARGE["view"], ["2,997 of 3,000 items", "number 3", "given <40 ndarray>"]),
        (LARGE["slate"], ["100 decisions", "number"]),
        (LARGE["plays"], ["<10000 ndarray>"]),
        (LARGE["trace"], ["action=<100 ndarray>", "contexts=None"]),
        (LARGE["confidence sequence"], ["0 values, 0 to 1"]),
        (LARGE["comparison"], ["0 and 0 values, difference -1 to 1, winner None"]),
        (LARGE["posterior"], ["Gaussian(length_scale=0.5)", "400 observations of 400 points", "regularization=1"]),
        (LARGE["length scales"], ["length_scale="]),
    ],
    ids=["catalog", "view", "slate", "plays", "trace", "sequence", "comparison", "posterior", "length scales"],
)
def test_they_still_say_what_is_inside(make, words):
    for word in words:
        assert word in repr(make())


def test_a_repr_of_small_values_is_an_expression():
    kernel = 2.0 * Gaussian(length_scale=0.3) + 1.0
    assert eval(repr(kernel), vars(kb.kernels)) == kernel
    assert repr(kb.KernelUCB(kernel, exploration=0.3)).startswith("KernelUCB(kernel=Sum(parts=(Scaled(kernel=Gaussian(")


def test_a_value_without_a_repr_is_named_by_its_type():
    class Silent:
        def __repr__(self):
            raise RuntimeError

    assert short_repr(Silent()) == "a value of type Silent"
    assert short_repr(lambda: 0).startswith("<function")
    assert " at 0x" not in short_repr([object()])


# -- notebooks ---------------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


EVIL = "<script>alert('x')</script>&\""

SHOWN = {
    "catalog": lambda: kb.Catalog([EVIL, "b"], ids=[EVIL, "c"]),
    "slate": lambda: kb.KernelUCB(Spectrum(n=2)).choose([EVIL, "b", "c"], ids=[EVIL, "b", "c"], k=3),
    "policy": lambda: kb.Guarded(kb.KernelUCB(Spectrum(n=2)), baseline=EVIL),
    "posterior": lambda: trained([EVIL, "b"], Spectrum(n=2)).posterior,
    "explanation": lambda: (lambda policy: policy.explain(policy.choose([EVIL])))(trained([EVIL], Spectrum(n=2) + 1.0)),
}


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_show_a_table_in_the_colors_of_the_page(name):
    html = SHOWN[name]()._repr_html_()
    page = Reader()
    page.feed(html)

    assert not page.open
    assert {tag for tag, _ in page.tags} <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert "<script" not in html
    if name != "posterior":
        assert any(EVIL in text or repr(EVIL) in text for text in page.text)
    styles = " ".join(attrs.get("style", "") for _, attrs in page.tags)
    assert not re.search(r"#[0-9a-f]{3}|rgb|(?<!-)\b(black|white|gray)\b", styles)  # only what the page has
    assert len(html) < 20_000


def test_notebooks_show_the_rows_of_a_catalog_with_few_digits():
    assert "<td" in (html := kb.Catalog(np.array([[0.123456, 2.0]]))._repr_html_())
    assert ">[0.123 2. ]<" in html


@pytest.mark.parametrize("name", ["catalog", "slate", "policy", "wrapper", "posterior"])
def test_notebooks_show_a_bounded_number_of_rows(name):
    html = LARGE[name]()._repr_html_()
    assert html.count("<tr>") <= 25
    assert len(html) < 30_000


def test_unescaped_text_would_be_seen(monkeypatch):
    monkeypatch.setattr("kernelbandits._text.escape", lambda text: text)
    assert "<script" in html_table("a", [[EVIL]])
