"""Pages of the dashboard: every question is answered, every state is shown, and nothing comes from elsewhere."""

import http.client
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from kernelbandits.service import keys
from kernelbandits.service.dashboard.pages import PAGES, assets
from kernelbandits.service.store import StoreDamaged
from services import PATIENCE, ROWS, STRINGS, PatientClient, Time, busy, experiment, read_news, served, settle

QUESTIONS = [
    "Is it safe?", "Better than before?", "Is it learning?", "What is it doing?", "Is the data healthy?",
    "Why this one?", "What changed?", "What if?",
]  # fmt: skip
VOID = {"meta", "link", "input", "br", "img", "path", "rect"}


class Page(HTMLParser):
    """Elements, text and addresses of a page; a tag that does not match fails."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def send(service, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, response.headers, text


def page(service, path, status=200, **headers):
    found, head, text = send(service, "GET", path, **headers)
    assert found == status, text
    assert head["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in head["content-security-policy"]
    return Page(text)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    time = Time()
    with served(tmp_path_factory.mktemp("pages"), clock=time.clock()) as found:
        experiment(found.learner, "news", policy=STRINGS, wait=60.0, default_reward=0.0, holdout=0.2, deadline=60.0)
        experiment(found.learner, "paused", policy=STRINGS, epsilon=0.0, deadline=60.0)
        experiment(found.learner, "empty", policy=ROWS, description="<script>alert(1)</script>")
        read_news(found.learner, 120, time, name="news")
        read_news(found.learner, 3, time, name="paused")
        found.learner.transition("paused", "pause").result(PATIENCE)
        settle(found.learner)
        with PatientClient(found.url) as found.client:  # opens a connection again that was idle for long
            yield found


ALL = [
    "/", "/experiments/news", "/experiments/paused", "/experiments/empty", "/experiments/news/decisions/d100",
    "/experiments/news/decisions/d117", "/experiments/news/evaluation", "/login",
]  # fmt: skip


@pytest.mark.parametrize("path", ALL)
def test_a_page_can_be_read_without_its_colors_and_without_a_script(service, path):
    found = page(service, path)

    assert dict(found.all("html")[0])["lang"] == "en"
    assert len(found.all("h1")) == 1
    assert len(found.all("main")) == 1
    for tag, attributes in found.elements:
        for name in ("src", "href", "action"):
            address = attributes.get(name, "/")
            assert address.startswith(("/", "#")), address
            assert not address.startswith("//"), address
        assert "style" not in attributes, "the policy of contents forbids it"
        assert not any(name.startswith("on") for name in attributes)
        if tag == "script":
            assert attributes["src"].startswith("/static/")
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in found.elements:
        assert attributes.get("aria-labelledby") in (None, *ids)
    for region in (one for _, one in found.elements if one.get("role") in ("region", "img")):
        assert region["aria-label"]
    assert all(one.get("scope") in ("col", "row") for one in found.all("th"))


def test_every_question_is_answered(service):
    found, summary = page(service, "/experiments/news"), service.client.request("GET", "/v1/experiments/news/summary")

    for question in QUESTIONS:
        assert question in found.text
    groups = summary["comparison"]
    assert f"Policy{groups['policy']['n']}" in found.text.replace(" ", "")
    assert f"{groups['policy']['mean']:.3g}" in found.text
    assert f"{groups['difference']['high']:.3g}" in found.text
    assert f"Effective dimension {summary['model']['effective_dimension']}" in found.text
    assert "Now running" in found.text
    assert "the difference" in found.text
    for one in summary["actions"]:
        assert one["id"] in found.text
    drawn = found.all("table")
    assert sum("data-chart" in one for one in drawn) == 4
    predicted = [float(one["data-y"]) for one in found.all("td") if "data-y" in one]
    assert summary["intervals"][0]["predicted"] in predicted
    assert summary["intervals"][-1]["width"] in predicted


def test_the_first_page_counts_what_the_log_holds(service):
    counts = service.learner.store.counts("news")
    shown = page(service, "/").text.partition(" news ")[2]

    assert counts["reward"] > 0
    assert shown.split()[:4] == ["running", "p1", str(counts["decision"]), str(counts["reward"])]
    assert service.client.show("news")["rows"] == counts


def test_one_decision_is_explained(service):
    explained = service.client.request("GET", "/v1/experiments/news/decisions/d110?explain=true")
    found = page(service, "/experiments/news/decisions/d110")

    assert f"{explained['action_id']} (chosen)" in found.text
    for one in explained["candidates"]:
        assert f"{one['mean']:.3g}" in found.text
    assert explained["explanation"]["resembles"][0]["context"] in found.text
    assert "Past actions that it resembles" in found.text


def test_states_are_shown(service):
    assert "Paused. Every decision takes the baseline action" in page(service, "/experiments/paused").text
    assert "No exploration floor" in page(service, "/experiments/paused").text
    assert "No decisions yet" in page(service, "/experiments/empty").text
    assert "Paused." not in page(service, "/experiments/news").text
    service.learner.state = "read-only"
    try:
        assert "Read-only. The disk is full" in page(service, "/experiments/news").text
        service.learner.error = StoreDamaged("row 7")
        assert "Read-only. The log is damaged" in page(service, "/experiments/news").text
        service.learner.error = None
        assert "The disk is full" in page(service, "/experiments/news/decisions/d110").text
    finally:
        service.learner.state = "ready"
    assert "Read-only" not in page(service, "/experiments/news").text


def test_text_of_others_is_escaped(service):
    found = page(service, "/experiments/empty")

    assert "<script>alert(1)</script>" in found.text
    assert all("src" in one for one in found.all("script"))


def test_fallbacks_and_a_service_without_experiments_are_shown(tmp_path):
    with served(tmp_path) as service:
        assert "There is no experiment yet" in page(service, "/").text
        experiment(service.learner, "slow", policy=STRINGS)
        read_news(service.learner, 2, Time(), name="slow")
        with busy(service.learner):
            for number in range(4):
                service.client.decide("slow", [{"id": "a", "x": "one"}, {"id": "b", "x": "two"}], id=f"f{number}")
        settle(service.learner)
        assert "Fallback. 4 of the last 6 decisions" in page(service, "/experiments/slow").text


def test_what_is_not_there_is_a_page_too(service):
    assert "There is no experiment" in page(service, "/experiments/nothing", 404).text
    assert "There is no decision" in page(service, "/experiments/news/decisions/nothing", 404).text
    assert send(service, "GET", "/static/nothing.js")[0] == 404
    assert send(service, "GET", "/static/..%2Fpages.py")[0] == 404


def test_another_version_can_be_estimated(service):
    found = page(service, "/experiments/news/evaluation?policy=p1&estimator=SNIPS")
    expected = service.client.request("POST", "/v1/experiments/news/evaluations", {"policy": "p1"})

    assert f"{expected['estimate']['value']:.3g}" in found.text
    assert f"Judged on {expected['n_rounds']} decisions" in found.text
    assert "has no policy 'p9'" in page(service, "/experiments/news/evaluation?policy=p9").text
    assert page(service, "/experiments/news/evaluation?policy=p1&estimator=no", 422)
    assert page(service, "/experiments/news/evaluation?policy=p1", 403, **{"sec-fetch-site": "cross-site"})


def test_a_verified_log_is_said_to_be(service):
    assert "Log replayed and compared not since the start" in page(service, "/").text
    found = service.client.request("POST", "/v1/verify")

    assert found["is_sound"]
    assert f"matched at row {found['seq']:,}" in page(service, "/").text


def test_assets_are_served_with_their_license(service):
    for name in ("uplot.js", "uplot.css", "dashboard.js", "dashboard.css", "icon.svg"):
        status, head, text = send(service, "GET", f"/static/{name}")
        assert (status, head["x-content-type-options"]) == (200, "nosniff")
        assert not re.search(r"https?://(?!www\.w3\.org|github\.com/leeoniya)", text)
    assert "MIT License" in send(service, "GET", "/static/uplot-LICENSE.txt")[2]
    assert sum(len(data) for name, data in assets().items() if name.endswith(".js")) <= 120_000


FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_keys_open_the_pages_that_they_may_read(tmp_path):
    with served(tmp_path) as service:
        for name in ("mine", "other"):
            experiment(service.learner, name, policy=ROWS)
        _, reader = keys.create_key(service.learner.store, ["read"])
        _, bound = keys.create_key(service.learner.store, ["read"], ["mine"])
        _, decider = keys.create_key(service.learner.store, ["decide"])
        service.app.state.service._known_keys = (0.0, False)

        status, head, _ = send(service, "GET", "/experiments/mine")
        assert (status, head["location"]) == (303, "/login?next=/experiments/mine")
        for secret, expected in (("kb_wrong", 401), (decider, 403), ("", 401)):
            status, head, text = send(service, "POST", "/login", f"key={secret}", **FORM)
            assert (status, head["set-cookie"]) == (expected, None)
            assert 'role="alert"' in text
            assert not secret or secret not in text
        status, head, _ = send(service, "POST", "/login", f"key={reader}&next={quote('/experiments/mine')}", **FORM)
        assert (status, head["location"]) == (303, "/experiments/mine")
        assert "HttpOnly" in head["set-cookie"]
        assert "SameSite=strict" in head["set-cookie"]
        cookie = {"cookie": head["set-cookie"].partition(";")[0]}
        assert "Is it safe?" in page(service, "/", **cookie).text
        assert "Forget the key" in page(service, "/experiments/mine", **cookie).text
        bound_cookie = {"cookie": f"kernelbandits_session={bound}"}
        listed = page(service, "/", **bound_cookie)
        assert "mine" in listed.text
        assert "other" not in listed.text
        assert "Is it safe?" not in listed.text
        assert "shown to keys of all experiments" in page(service, "/experiments/mine", **bound_cookie).text
        page(service, "/experiments/other", 403, **bound_cookie)
        status, head, _ = send(service, "POST", "/logout", **cookie)
        assert (status, head["location"]) == (303, "/login")
        assert 'kernelbandits_session=""' in head["set-cookie"]


@pytest.mark.parametrize("following", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere", "/\r\nx: y"])
def test_a_key_leads_to_no_other_host(service, following):
    _, secret = keys.create_key(service.learner.store, ["read"])
    try:
        status, head, _ = send(service, "POST", "/login", f"key={secret}&next={quote(following, safe='')}", **FORM)
        assert (status, head["location"]) == (303, "/")
        crossed = {**FORM, "sec-fetch-site": "cross-site"}
        assert send(service, "POST", "/login", f"key={secret}", **crossed)[0] == 403
        assert send(service, "POST", "/login", "key=" + "x" * 5_000, **FORM)[0] == 413
        assert send(service, "POST", "/login", "{}", **{"content-type": "application/json"})[0] == 415
    finally:
        listed = service.learner.store.keys()
        for one in listed:
            service.learner.store.revoke_key(one.id, 0.0)


def test_every_page_but_the_form_and_its_style_needs_the_scope_read():
    assert {one.path for one in PAGES if one.scope is None} == {"/login", "/logout", "/static/{file}"}
    assert {one.scope for one in PAGES} == {None, "read"}


def test_templates_fetch_nothing():
    folder = Path(__file__).parents[3] / "src" / "kernelbandits" / "service" / "dashboard"
    for path in folder.rglob("*.html"):
        assert "://" not in path.read_text(encoding="utf-8").replace("{{ url }}", "")
