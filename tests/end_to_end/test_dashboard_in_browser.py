"""The dashboard as a browser shows it: an experiment with 10,000 decisions, and every state of one."""

import os
import re
import subprocess

import pytest
from scripts.site.browser import FLAGS, NoBrowser, find_browser, look_at

from services import PATIENCE, ROWS, STRINGS, Time, busy, experiment, read_news, served, settle

pytestmark = pytest.mark.long

N_DECISIONS = int(os.environ.get("KERNELBANDITS_TEST_DECISIONS", "10000"))

LAST = f"experiments/news/decisions/d{N_DECISIONS - 10}"
PAGES = [
    "", "experiments/news", LAST, "experiments/news/evaluation", "experiments/news/evaluation?policy=p1",
    "experiments/paused", "experiments/empty", "experiments/slow", "experiments/none", "login",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def browser():
    try:
        return find_browser()
    except NoBrowser as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    time = Time()
    with served(tmp_path_factory.mktemp("watched"), clock=time.clock()) as found:
        given = {"wait": 300.0, "deadline": 60.0, "pending_limit": 20}
        experiment(found.learner, "news", policy=STRINGS, default_reward=0.0, holdout=0.1, epsilon=0.05, **given)
        experiment(found.learner, "paused", policy=STRINGS, **given)
        experiment(found.learner, "empty", policy=ROWS)
        experiment(found.learner, "slow", policy=STRINGS)
        read_news(found.learner, 20, time, name="paused")
        found.learner.transition("paused", "pause").result(PATIENCE)
        read_news(found.learner, N_DECISIONS, time, name="news")
        slowly(found)
        settle(found.learner)
        yield found


def slowly(service):
    """Decisions that fall back to a random action."""
    actions = [{"id": "a", "x": "one"}, {"id": "b", "x": "two"}]
    service.client.decide("slow", actions, id="first")
    with busy(service.learner):
        assert {service.client.decide("slow", actions, id=f"d{n}")["mode"] for n in range(5)} == {"fallback"}


def dumped(browser, address, profile):
    """The page after its scripts have run, and what the browser said about it."""
    command = [browser, *FLAGS, f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0",
               "--virtual-time-budget=5000", "--dump-dom", address]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_every_page_looks_as_it_should(service):
    pages = [page for page in PAGES if page != "experiments/none"]

    assert look_at(service.url, pages, needs_names=True) == []


def test_a_service_that_is_read_only_looks_as_it_should(service):
    service.learner.state = "read-only"
    try:
        assert look_at(service.url, ["", "experiments/news", LAST], needs_names=True) == []
    finally:
        service.learner.state = "ready"


def test_charts_are_drawn_under_the_policy_of_contents(service, browser, tmp_path):
    text, said = dumped(browser, f"{service.url}/experiments/news", tmp_path)

    assert len(re.findall("<canvas", text)) == 4
    assert said == []
    text, said = dumped(browser, f"{service.url}/experiments/empty", tmp_path)
    assert "<canvas" not in text
    assert said == []


NAMELESS = {
    "<button></button>": "has a button without a name",
    "<select><option>one</option></select>": "has a select without a name",
    "<a href='/'></a>": "has a a without a name",
    "<div role='region' tabindex='0'></div>": "has a div without a name",
}


@pytest.mark.parametrize("element", NAMELESS)
def test_a_control_without_a_name_is_found(tmp_path, element):
    size = "<style>a, div { display: block; width: 9px; height: 9px }</style>"
    (tmp_path / "page.html").write_text(f"<!doctype html>{size}<body>{element}</body>", encoding="utf-8")

    found = look_at(tmp_path, ["page.html"], widths=[390], needs_names=True)
    assert [NAMELESS[element] in one for one in found] == [True, True]
    assert look_at(tmp_path, ["page.html"], widths=[390]) == []
