"""The summary of a log: every number is what a slow count over the rows gives."""

import json
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from kernelbandits.evaluation import ABComparison
from kernelbandits.service.insight import BUCKETS, DELAYS, Insight, Insights
from kernelbandits.theory import effective_dimension
from services import PATIENCE, STRINGS, Time, decide, experiment, read_news, request, reward, running, settle


def bodies(learner, kind, name="e"):
    return [(row, json.loads(row.body)) for row in learner.store.rows(name, types=(kind,)) if row.body]


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A learner after 300 decisions on a clock that moves, and the summary that was read in between and at the end."""
    time = Time()
    with running(tmp_path_factory.mktemp("story"), clock=time.clock()) as learner:
        experiment(learner, policy=STRINGS, wait=60.0, default_reward=0.0, holdout=0.2, deadline=60.0)
        insights = Insights(learner)
        read_news(learner, 150, time)
        insights.summary("e")
        for number in range(150, 300):
            time.pass_(8.0)
            decide(learner, f"d{number}", news(number))
            if number % 3:
                reward(learner, f"d{number}", number % 2)
        settle(learner)
        yield SimpleNamespace(learner=learner, found=insights.summary("e"), insights=insights)


def news(number):
    from kernelbandits.service.schemas import Action, DecisionRequest

    return DecisionRequest(actions=[Action(f"a{(number + i) % 5}", f"headline {(number + i) % 5}") for i in range(3)])


def test_decisions_are_counted_as_they_were_made(story):
    rows = bodies(story.learner, "decision")
    found = story.found

    assert found["n_decisions"] == len(rows) == 300
    assert found["modes"] == dict(Counter(body["mode"] for _, body in rows))
    assert found["modes"]["holdout"] > 20
    chosen = Counter(body["places"][0]["id"] for _, body in rows)
    offered = Counter(action["id"] for _, body in rows for action in body["request"]["actions"])
    assert {one["id"]: (one["chosen"], one["offered"]) for one in found["actions"]} == {
        d: (chosen[d], n) for d, n in offered.items()
    }
    assert found["n_never_tried"] == sum(not chosen[d] for d in offered)
    assert sum(one["share"] for one in found["actions"]) == pytest.approx(1.0)


def test_the_comparison_is_that_of_the_learned_rewards(story):
    modes = {row.id: body["mode"] for row, body in bodies(story.learner, "decision")}
    test = ABComparison(failure_probability=0.05, reward_range=(0.0, 1.0))
    for _, body in bodies(story.learner, "learn"):
        for d, _, value in body.get("learn", []):
            test.add(**{"first" if modes[d] == "policy" else "second": value})

    difference = story.found["comparison"]["difference"]
    assert (difference["low"], difference["high"]) == pytest.approx(test.interval, abs=1e-9)
    assert story.found["comparison"]["policy"]["mean"] == pytest.approx(test.first.estimate().value)
    assert story.found["comparison"]["winner"] == {"first": "policy", "second": "holdout", None: None}[test.winner]


def test_what_was_learned_is_in_the_intervals(story):
    learned, means = {}, {}
    for row, body in bodies(story.learner, "decision"):
        means[row.id] = body["places"][0].get("mean")
    for _, body in bodies(story.learner, "learn"):
        learned |= {d: value for d, _, value in body.get("learn", [])}
        learned |= {d: value for d, _, _, value in body.get("amend", [])}
    known = [d for d in learned if means[d] is not None]
    entries = story.learner.store.decisions("e")
    stored = {one.id: json.loads(one.learned)[0] for one in entries if one.learned}

    assert learned == stored
    assert sum(one["n"] for one in story.found["intervals"]) == 300
    assert len(story.found["intervals"]) <= BUCKETS
    insight = story.insights._held["e"]
    totals = [sum(getattr(one, name) for one in insight._buckets.values()) for name in ("predicted", "realized")]
    expected = sum(means[d] for d in known), sum(learned[d] for d in known)
    assert totals == pytest.approx(expected)
    for one in story.found["intervals"]:
        assert sum(one["shares"]) <= 1.0 + 1e-12


def test_the_funnel_and_the_delays_are_those_of_the_rows(story):
    at = {row.id: row.at for row, _ in bodies(story.learner, "decision")}
    rewards = bodies(story.learner, "reward")
    in_time = {body["decision"] for _, body in rewards if not body["late"]}
    delays = np.array([row.at - at[body["decision"]] for row, body in rewards])
    learned = {d for _, body in bodies(story.learner, "learn") for d, _, _ in body.get("learn", [])}
    funnel = story.found["funnel"]

    assert (funnel["decided"], funnel["shown"], funnel["rewarded"]) == (300, 300, len(in_time))
    assert funnel["default"] == len(learned - in_time) > 0
    assert funnel["late"] == sum(body["late"] for _, body in rewards) > 0
    assert funnel["open"] == len(story.learner.experiments["e"].entries) > 0
    edges = [-np.inf, *DELAYS, np.inf]
    expected = [int(((low < delays) & (delays <= high)).sum()) for low, high in pairwise(edges)]
    assert [one["n"] for one in story.found["delays"]] == expected


def test_the_model_is_described_by_its_effective_dimension(story):
    posterior = story.learner.experiments["e"].model.inner.posterior
    points, _, counts, _ = posterior.support()
    gram = np.repeat(np.repeat(posterior.kernel.gram(points), counts.astype(int), 0), counts.astype(int), 1)
    slowly = effective_dimension(gram, regularization=posterior.regularization, horizon=posterior.n_observations)

    assert story.found["model"]["effective_dimension"] == slowly
    assert story.found["model"]["n_learned"] == story.learner.experiments["e"].info()["n_learned"]


def test_a_summary_read_at_once_is_that_read_in_parts(story):
    again = Insights(story.learner).summary("e")

    assert again["comparison"]["difference"] == pytest.approx(story.found["comparison"]["difference"])
    assert {**again, "comparison": None} == {**story.found, "comparison": None}


def test_changes_are_listed_the_latest_first(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        learner.transition("e", "pause").result(PATIENCE)
        found = Insights(learner).summary("e")

    assert [(one["type"], one["what"].get("state")) for one in found["changes"]][:2] == [
        ("state", "paused"),
        ("state", "running"),
    ]
    assert found["n_decisions"] == 0
    assert found["comparison"]["difference"] is None
    assert found["intervals"] == []


def test_erased_decisions_are_no_longer_shown(tmp_path):
    with running(tmp_path) as learner:
        experiment(learner)
        insights = Insights(learner)
        for number in range(4):
            decide(learner, f"d{number}", request(number, subject="her" if number % 2 else None))
            reward(learner, f"d{number}", 1.0)
        settle(learner)
        before = insights.summary("e")
        learner.erase("e", "her").result(PATIENCE)
        after = insights.summary("e")

    assert {one["id"] for one in before["recent"]} == {"d0", "d1", "d2", "d3"}
    assert {one["id"] for one in after["recent"]} == {"d0", "d2"}
    assert sum(one["realized"] is not None for one in after["intervals"]) >= 1


def test_time_is_divided_into_a_bounded_number_of_intervals():
    insight = Insight((0.0, 1.0))
    for at in [0.0, 1.0, 5.0, 1e4, 1e6, 3e7, 3e7 + 1]:
        insight._bucket(at).n += 1

    assert sum(one.n for one in insight._buckets.values()) == 7
    assert len(insight._buckets) <= BUCKETS
    assert max(insight._buckets) < BUCKETS
