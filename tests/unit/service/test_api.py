"""The HTTP interface: answers, problems, limits, keys; what is rejected leaves no trace."""

import asyncio
import concurrent.futures
import http.client
import io
import json
import socket
import time
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from kernelbandits.service import keys
from kernelbandits.service.api import endpoints
from kernelbandits.service.api.app import Admission
from kernelbandits.service.client import ServiceError
from kernelbandits.service.schemas import Limits
from kernelbandits.service.settings import Settings
from services import PATIENCE, ROWS, STRINGS, PatientClient, busy, check, eventually, served

ACTIONS = [{"id": "a", "x": [0.1, 0.7]}, {"id": "b", "x": [0.3, 0.2]}]
JSON = {"content-type": "application/json"}
ONE = "/v1/experiments/news/decisions/d1"
HEAD = f"PUT {ONE} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service")) as found:
        for name, policy in (("news", ROWS), ("text", STRINGS)):
            found.client.create(name, policy)
            found.client.act(name, "start")
        yield found


def send(service, method, path, body=None, headers=JSON):
    """Send bytes or JSON; return status, headers and answer."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, data, headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, dict(response.headers), json.loads(text) if text else None


def test_the_answers_are_those_of_the_design(service):
    client = service.client
    answer = client.decide("news", ACTIONS, id="01K", k=1, baseline="a")

    assert answer["decision_id"] == "01K"
    assert answer["action_id"] in "ab"
    assert 0 < answer["propensity"] <= 1
    assert (answer["durable"], answer["replayed"], answer["policy"]) == ("disk", False, "p1")
    assert answer["closes_at"].endswith("Z")
    assert client.decide("news", ACTIONS, id="01K", k=1, baseline="a") == {**answer, "replayed": True}
    assert client.reward("news", "01K", 0.5)["learned"] == 0.5
    assert client.reward("news", "01K", 0.5)["replayed"]
    shown = client.request("GET", "/v1/experiments/news/decisions/01K?explain=true")
    assert shown["rewards"][0]["value"] == 0.5
    assert shown["request"]["actions"] == ACTIONS
    assert set(shown["explanation"]) == {"mean", "width", "bonus", "policy_seq", "resembles"}


def test_candidates_are_recorded_on_request(service):
    answer = service.client.decide("news", ACTIONS, id="explained", explain=True)

    assert sum(one["p"] for one in answer["candidates"]) == pytest.approx(1.0)
    assert answer["candidates"][0]["score"] >= answer["candidates"][1]["score"]


def test_an_id_may_be_left_to_the_service_or_stand_in_a_header(service):
    path = "/v1/experiments/news/decisions"
    assert send(service, "POST", path, {"actions": ACTIONS})[2]["decision_id"]
    headers = {**JSON, "idempotency-key": "once"}
    first = send(service, "POST", path, {"actions": ACTIONS}, headers)[2]
    again = send(service, "POST", path, {"actions": ACTIONS}, headers)[2]
    assert (first["decision_id"], again["replayed"]) == ("once", True)
    assert send(service, "POST", path, {"actions": ACTIONS}, {**JSON, "idempotency-key": "a b"})[0] == 422


def test_batches_answer_each_by_itself(service):
    decisions = [{"id": "b1", "actions": ACTIONS}, {"id": "b2", "actions": []}, {"id": "b1", "actions": ACTIONS}]
    found = send(service, "POST", "/v1/experiments/news/decisions/batch", {"decisions": decisions})[2]["results"]
    assert [one.get("decision_id", one.get("code")) for one in found] == ["b1", "invalid", "b1"]

    rewards = [
        {"decision_id": "b1", "id": "r1", "reward": 1.0},
        {"decision_id": "none", "id": "r1", "reward": 1.0},
        {"decision_id": "b1", "id": "r2", "reward": 0.25},
        {"decision_id": "b1", "id": "r1", "reward": 1.0},
    ]
    found = service.client.rewards("news", rewards)
    assert [one.get("learned", one.get("code")) for one in found] == [1.0, "not-found", 0.25, 1.0]
    service.learner.snapshot().result(PATIENCE)
    check(service.learner)


def test_concurrent_duplicates_are_decided_once(service):
    def one(_):
        return send(service, "PUT", "/v1/experiments/news/decisions/same", {"actions": ACTIONS})[2]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(24)))

    assert len({(one["seq"], one["action_id"], one["propensity"]) for one in answers}) == 1
    assert sum(not one["replayed"] for one in answers) == 1


BAD_BODIES = {
    "nothing": b"",
    "not JSON": b"{",
    "NaN": b'{"actions":[{"id":"a","x":[NaN]}]}',
    "Infinity": b'{"actions":[{"id":"a","x":[Infinity, 1]}]}',
    "1e999": b'{"actions":[{"id":"a","x":[1e999, 1]}]}',
    "true": b'{"actions":[{"id":"a","x":[true, 1]}]}',
    "text for a number": b'{"actions":[{"id":"a","x":["1", 1]}]}',
    "a huge integer": b'{"actions":[{"id":"a","x":[1' + b"0" * 400 + b", 1]}]}",
    "1e10": b'{"actions":[{"id":"a","x":[1e10, 1]}]}',
    "invalid UTF-8": b'{"actions":[{"id":"\xff","x":[1, 1]}]}',
    "a lone surrogate": b'{"actions":[{"id":"\\ud800","x":[1, 1]}]}',
    "depth": b"[" * 100_000,
    "depth of objects": b'{"actions":' * 50_000,
    "depth inside": b'{"actions":[{"id":"a","x":' + b"[" * 5_000 + b"]" * 5_000 + b"}]}",
    "a field twice": b'{"actions":[{"id":"a","x":[1,1]}],"actions":[{"id":"b","x":[1,1]}]}',
    "an inner field twice": b'{"actions":[{"id":"a","id":"b","x":[1,1]}]}',
    "an unknown field": b'{"actions":[{"id":"a","x":[1,1]}],"action":1}',
    "wrong dimension": b'{"actions":[{"id":"a","x":[1]}]}',
    "ragged rows": b'{"actions":[{"id":"a","x":[1,2]},{"id":"b","x":[1]}]}',
    "no actions": b'{"actions":[]}',
    "repeated ids": b'{"actions":[{"id":"a","x":[1,2]},{"id":"a","x":[1,2]}]}',
    "an id with a line feed": b'{"actions":[{"id":"a\\n","x":[1,2]}]}',
    "a null action": b'{"actions":[null]}',
    "a list": b"[]",
    "null": b"null",
    "k too large": b'{"actions":[{"id":"a","x":[1,2]}],"k":2}',
    "k zero": b'{"actions":[{"id":"a","x":[1,2]}],"k":0}',
    "a long subject": b'{"actions":[{"id":"a","x":[1,2]}],"subject":"' + b"s" * 300 + b'"}',
    "more than one document": b'{"actions":[{"id":"a","x":[1,2]}]}{}',
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_body_is_rejected_and_leaves_no_trace(service, name):
    send(service, "PUT", "/v1/experiments/news/decisions/good", {"actions": ACTIONS})
    before = service.learner.store.head().seq

    status, headers, found = send(service, "PUT", "/v1/experiments/news/decisions/bad", BAD_BODIES[name])

    assert status in (400, 422), found
    assert headers["content-type"] == "application/problem+json"
    assert found["code"] in ("malformed", "invalid")
    assert (found["status"], bool(found["detail"])) == (status, True)
    assert service.learner.store.head().seq == before


@pytest.mark.parametrize("value", [b"NaN", b"true", b'"1"', b"1e999", b"2", b"-0.1", b"null", b"1" + b"0" * 400])
def test_a_bad_reward_is_rejected(service, value):
    send(service, "PUT", "/v1/experiments/news/decisions/good", {"actions": ACTIONS})
    before = service.learner.store.head().seq

    status, _, found = send(
        service, "PUT", "/v1/experiments/news/decisions/good/rewards/bad", b'{"reward":' + value + b"}"
    )

    assert (status in (400, 422), found["code"] in ("malformed", "invalid")) == (True, True)
    assert service.learner.store.head().seq == before


def test_problems_name_the_bad_field(service):
    body = {"actions": [{"id": "a", "x": [0.1, True]}]}
    assert send(service, "PUT", ONE, body)[2]["pointer"] == "/actions/0/x/1"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not-found"),
        ("GET", "/v1/status/", 404, "not-found"),
        ("GET", "/v1/experiments/none", 404, "not-found"),
        ("GET", "/v1/experiments/news/decisions/none", 404, "not-found"),
        ("PUT", "/v1/experiments/news", 405, "method-not-allowed"),
        ("GET", "/v1/experiments/news/decisions/a%20b", 422, "invalid"),
        ("GET", "/v1/experiments/news/log?from=x", 422, "invalid"),
        ("GET", f"/v1/experiments/news/log?from={'9' * 30}", 422, "invalid"),
        ("POST", "/v1/experiments/none/start", 404, "not-found"),
        ("POST", "/v1/experiments/news/start", 200, None),
        ("POST", "/v1/experiments/news/resume", 200, None),
        ("POST", "/v1/experiments/news/policies/p9/activate", 404, "not-found"),
        ("DELETE", "/v1/experiments/news/items/none", 404, "not-found"),
    ],
)
def test_every_error_is_a_problem(service, method, path, status, code):
    found = send(service, method, path)
    assert (found[0], found[2].get("code")) == (status, code)


def test_without_a_key_pages_of_other_hosts_change_and_read_nothing(service):
    start = "/v1/experiments/news/start"
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert send(service, "POST", start, headers={"sec-fetch-site": site})[0] == status
    hosts = {"evil.example": 401, "127.0.0.1.evil.example:80": 401, "[::1": 401, "[::1]:80": 200, "localhost:80": 200}
    for host, status in {**hosts, "": 401, "127.0.0.2": 200}.items():
        assert send(service, "GET", "/v1/status", headers={"host": host})[0] == status, host
        assert send(service, "GET", "/healthz", headers={"host": host})[0] == 200


def test_an_id_in_the_body_is_that_of_the_request(service):
    first = send(service, "POST", "/v1/experiments/news/decisions", {"id": "in-body", "actions": ACTIONS})[2]
    path = "/v1/experiments/news/decisions/in-body"

    for body in ({"actions": ACTIONS}, {"id": "in-body", "actions": ACTIONS}):  # sent again another way
        assert send(service, "PUT", path, body)[2] == {**first, "replayed": True}
    found = send(service, "PUT", path, {"id": "other", "actions": ACTIONS})
    assert (found[0], found[2]["pointer"]) == (422, "/id")
    for field in ("id", "decision_id"):
        found = send(service, "PUT", f"{path}/rewards/r1", {"reward": 1.0, field: "other"})
        assert (found[0], found[2]["pointer"]) == (422, f"/{field}")
    body = {"reward": 1.0, "id": "r1", "decision_id": "in-body"}
    assert send(service, "PUT", f"{path}/rewards/r1", body)[0] == 200


def test_media_types(service):
    body = json.dumps({"actions": ACTIONS}).encode()
    for kind, status in (("application/json; charset=utf-8", 200), ("text/plain", 415), ("", 415)):
        assert send(service, "PUT", "/v1/experiments/news/decisions/media", body, {"content-type": kind})[0] == status


def test_the_log_is_streamed_as_cloud_events(service):
    client = service.client
    client.decide("text", [{"id": "a", "x": "one"}], id="first")

    events = list(client.log("text"))

    assert [event["type"].partition(".")[2] for event in events][:4] == ["experiment", "policy", "state", "decision"]
    assert events[3]["data"]["places"][0]["point"] == "one"
    assert [event["id"] for event in client.log("text", start=int(events[2]["id"]), limit=1)] == [events[2]["id"]]


def test_metrics_do_not_hold_ids(service):
    service.client.decide("text", [{"id": "canary-action", "x": "one"}], id="canary-decision")
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()

    assert "canary" not in text
    for name in ("requests_total", "commit_seconds_bucket", "learn_lag_rows", "open_decisions", "disk_free_bytes"):
        assert f"kernelbandits_{name}" in text


def test_the_description_names_every_route(service):
    found = send(service, "GET", "/openapi.json")[2]

    assert found["openapi"] == "3.1.0"
    for one in endpoints():
        assert found["paths"][one.path][one.method.lower()]["summary"], one.path
    assert "DecisionRequest" in found["components"]["schemas"]


def test_a_decision_that_the_learner_does_not_begin_in_time_falls_back(tmp_path):
    with served(tmp_path) as service:
        client = service.client
        client.create("news", ROWS, deadline=0.05, baseline="b")
        client.act("news", "start")
        client.decide("news", ACTIONS, id="d0")

        with busy(service.learner), concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda i: send(service, "PUT", f"{ONE}{i}", {"actions": ACTIONS})[2], range(6)))

        assert {(one["mode"], one["action_id"], one["propensity"]) for one in answers} == {("fallback", "b", 1.0)}
        again = send(service, "PUT", f"{ONE}5", {"actions": ACTIONS})[2]
        assert (again["seq"], again["mode"]) == (answers[5]["seq"], answers[5]["mode"])
        for number in range(6):
            client.reward("news", f"d1{number}", 0.5)
        service.learner.snapshot().result(PATIENCE)
        assert service.learner.experiments["news"].info()["n_learned"] == 6
        check(service.learner)


def test_a_decision_that_cannot_be_expected_to_begin_in_time_falls_back_at_once(tmp_path):
    with served(tmp_path) as service:
        service.client.create("news", ROWS, deadline=0.01)  # it may fall back
        service.client.create("patient", ROWS, deadline=60.0)
        for name in ("news", "patient"):
            service.client.act(name, "start")
            service.client.decide(name, ACTIONS, id="d1")
        with busy(service.learner):
            assert service.client.decide("news", ACTIONS, id="d2")["mode"] == "fallback"  # its request waits on
            service.learner._pace = 61.0
            start = time.monotonic()
            assert service.client.decide("patient", ACTIONS, id="d2")["mode"] == "fallback"
            assert time.monotonic() - start < 30.0
            assert service.client.decide("patient", ACTIONS, id="d2")["replayed"]
        service.learner.snapshot().result(PATIENCE)
        service.learner._pace = 0.0
        assert service.client.decide("patient", ACTIONS, id="d3")["mode"] == "policy"
        service.learner.snapshot().result(PATIENCE)
        check(service.learner)


def test_a_first_decision_waits_for_a_learner_that_is_busy(tmp_path):
    """Nothing is known of the actions before it, so there is no fallback."""
    with served(tmp_path) as service, concurrent.futures.ThreadPoolExecutor(1) as pool:
        service.client.create("news", ROWS, deadline=0.05, baseline="b")
        service.client.act("news", "start")
        with busy(service.learner):
            first = pool.submit(service.client.decide, "news", ACTIONS, id="d1")
            eventually(lambda: service.learner.n_waiting)
            time.sleep(0.3)  # several deadlines
        assert first.result(PATIENCE)["mode"] == "policy"
        with busy(service.learner):
            assert service.client.decide("news", ACTIONS, id="d2")["mode"] == "fallback"


def test_limits_hold_at_the_limit_and_one_above(tmp_path):
    limits = Limits(body=2_000, batch_body=4_000, inline_actions=3, catalog_items=2, columns=4, batch=2)
    with served(tmp_path, settings=Settings(data=tmp_path, limits=limits)) as service:
        client = service.client
        for name in ("rows", "wide", "catalog"):
            client.create(name, ROWS if name != "catalog" else STRINGS)
            client.act(name, "start")

        def status(path, body, method="PUT"):
            return send(service, method, f"/v1/experiments/{path}", body)[0]

        rows = [{"id": f"a{i}", "x": [1.0] * 4} for i in range(4)]
        assert status("rows/decisions/d1", {"actions": rows[:3]}) == 200
        assert status("rows/decisions/d2", {"actions": rows}) == 413
        assert status("wide/decisions/d1", {"actions": [{"id": "a", "x": [1.0] * 5}]}) == 422
        items = [{"id": f"a{i}", "x": "text"} for i in range(3)]
        assert status("catalog/items/batch", {"put": items[:2]}, "POST") == 200
        assert status("catalog/items/batch", {"put": items[2:]}, "POST") == 413
        batch = {"decisions": [{"actions": rows[:1]}] * 3}
        assert status("rows/decisions/batch", {"decisions": batch["decisions"][:2]}, "POST") == 200
        assert status("rows/decisions/batch", batch, "POST") == 413
        rewards = [{"decision_id": "d1", "id": f"r{i}", "reward": 1.0} for i in range(3)]
        assert status("rows/rewards/batch", {"rewards": rewards[:2]}, "POST") == 200
        assert status("rows/rewards/batch", {"rewards": rewards}, "POST") == 413
        small = {"actions": rows[:1], "subject": ""}
        room = 2_000 - len(json.dumps(small).encode())
        padded = json.dumps(small).encode()
        assert status("rows/decisions/d3", padded + b" " * room) == 200
        assert status("rows/decisions/d4", padded + b" " * (room + 1)) == 413
        long = "a" * 128
        assert status(f"rows/decisions/{long}", small) == 200
        assert status(f"rows/decisions/{long}a", small) == 422


def raw(service, data):
    """Send raw bytes and read the status of the answer."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        try:
            answer = connection.recv(65_536)
        except ConnectionResetError:
            return None
    return int(answer.split(b" ", 2)[1]) if answer else None


def test_bodies_that_lie_about_their_length(tmp_path):
    limits = Limits(body=10_000, body_seconds=20.0)
    with served(tmp_path, settings=Settings(data=tmp_path, limits=limits)) as service:
        service.client.create("news", ROWS)
        service.client.act("news", "start")
        head = HEAD.encode()
        before = service.learner.store.head().seq

        assert raw(service, head + b"content-length: 99999999\r\n\r\n") == 413  # before any of the body
        chunk = b"3e8\r\n" + b" " * 1000 + b"\r\n"
        assert raw(service, head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 11 + b"0\r\n\r\n") == 413
        assert raw(service, head + b"content-length: 50\r\n\r\n{") == 408
        assert raw(service, head + b"content-length: nonsense\r\n\r\n{}") == 400
        assert raw(service, head + b"content-length: -1\r\n\r\n{}") == 400
        assert service.learner.store.head().seq == before


def test_more_requests_than_the_limit_are_rejected_and_then_taken_again(tmp_path):
    limits = Limits(in_flight=2, body_seconds=PATIENCE)
    with served(tmp_path, settings=Settings(data=tmp_path, limits=limits)) as service:
        service.client.create("news", ROWS)
        service.client.act("news", "start")
        head = HEAD + "content-length: 50\r\n\r\n{"
        held = []
        for _ in range(2):
            held.append(socket.create_connection(("127.0.0.1", service.port)))
            held[-1].sendall(head.encode())
        eventually(lambda: service.app.state.service.n_active == 2)

        status, headers, found = send(service, "PUT", ONE, {"actions": ACTIONS})

        assert (status, found["code"], headers["retry-after"]) == (503, "overloaded", "1")
        assert send(service, "GET", "/readyz")[0] == 200
        for one in held:
            one.close()
        eventually(lambda: service.app.state.service.n_active == 0)
        assert send(service, "PUT", ONE, {"actions": ACTIONS})[0] == 200


@pytest.mark.parametrize(("slow", "n_taken"), [(0.0, 3), (1e9, 8)])
def test_while_the_event_loop_is_slow_fewer_requests_are_taken_at_once(slow, n_taken):
    codes, is_over = [], asyncio.Event()
    metrics = SimpleNamespace(rejected=codes.append)
    service = SimpleNamespace(n_active=0, settings=Settings(limits=Limits(in_flight=8)), metrics=metrics)

    async def app(scope, receive, send):
        await receive()

    admission = Admission(app, service, slow=slow, fewest=3)

    def requested(receive):
        return asyncio.create_task(admission({"type": "http", "path": ONE}, receive, AsyncMock()))

    async def take():
        for _ in range(40):
            await requested(AsyncMock())
        held = [requested(is_over.wait) for _ in range(10)]
        while service.n_active + len(codes) < len(held):
            await asyncio.sleep(0)
        n_active = service.n_active
        is_over.set()
        await asyncio.gather(*held)
        return n_active

    assert asyncio.run(take()) == n_taken
    assert codes == ["overloaded"] * (10 - n_taken)
    assert service.n_active == 0


def test_under_overload_every_request_is_answered_and_afterwards_the_policy_decides_again(tmp_path):
    """Row 12 of the failure table without its times, which `python -m benchmarks.service` measures."""
    with served(tmp_path, settings=Settings(data=tmp_path, limits=Limits(in_flight=4))) as service:
        service.client.create("news", ROWS, deadline=0.001)
        service.client.act("news", "start")
        service.client.decide("news", ACTIONS, id="d0")

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda i: send(service, "PUT", f"{ONE}{i}", {"actions": ACTIONS}), range(256)))

        assert {status for status, *_ in answers} <= {200, 503}
        assert all(headers["retry-after"] == "1" for status, headers, _ in answers if status == 503)
        decided = [found for status, _, found in answers if status == 200]
        assert {one["mode"] for one in decided} <= {"policy", "fallback"}
        assert service.learner.store.counts("news")["decision"] == 1 + len(decided)
        names = (f"{ONE}-{number}" for number in range(10**6))
        eventually(lambda: send(service, "PUT", next(names), {"actions": ACTIONS})[2].get("mode") == "policy")
        service.learner.snapshot().result(PATIENCE)
        check(service.learner)


SCOPES = {one: one.scope for one in endpoints()}


def test_keys_allow_their_scopes_and_experiments_only(tmp_path, caplog):
    caplog.set_level("DEBUG")
    answers = []
    with served(tmp_path) as service:
        store = service.learner.store
        manager = keys.create_key(store, keys.SCOPES)[1]
        service.app.state.service._known_keys = (0.0, False)
        with PatientClient(service.url, key=manager, retries=0) as client:
            for name in ("news", "other"):
                client.create(name, ROWS)
                client.act(name, "start")
            client.decide("news", ACTIONS, id="d1")
        by_scope = {scope: keys.create_key(store, [scope], ["news"])[1] for scope in keys.SCOPES}
        revoked, revoked_secret = keys.create_key(store, keys.SCOPES)
        store.revoke_key(revoked.id, 1.0)

        def status(endpoint, secret, experiment="news"):
            path = endpoint.path.format(
                experiment=experiment, decision="d1", reward="r1", item="i1", policy="p1"
            )  # fmt: skip
            headers = {**JSON, **({} if secret is None else {"authorization": f"Bearer {secret}"})}
            method, body = endpoint.method, b"{" if endpoint.takes else None
            answers.append(send(service, "HEAD" if method == "GET" else method, path, body, headers))
            return answers[-1][0]

        for endpoint in endpoints():
            if endpoint.scope is None:
                assert status(endpoint, None) in (200, 503), endpoint.path
                continue
            has_experiment = "{experiment}" in endpoint.path
            assert status(endpoint, None) == 401, endpoint.path
            assert status(endpoint, revoked_secret) == 401
            assert status(endpoint, "kb_wrong") == 401
            if (
                "/start" in endpoint.path
                or "/end" in endpoint.path
                or "pause" in endpoint.path
                or "resume" in endpoint.path
            ):
                continue
            for scope, secret in by_scope.items():
                expected_forbidden = scope != endpoint.scope or not has_experiment
                found = status(endpoint, secret)
                assert (found == 403) == expected_forbidden or endpoint.path == "/v1/experiments", (
                    endpoint.path,
                    scope,
                    found,
                )
            if has_experiment:
                assert status(endpoint, by_scope[endpoint.scope], "other") == 403

        everything = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        for secret in (manager, revoked_secret, *by_scope.values()):
            assert secret.encode() not in everything
            assert secret not in str(answers)
            assert secret not in caplog.text


def test_a_key_of_some_experiments_sees_only_these(tmp_path):
    with served(tmp_path) as service:
        for name in ("news", "other"):
            service.client.create(name, ROWS)
        secret = keys.create_key(service.learner.store, ["read", "manage"], ["news"])[1]
        with PatientClient(service.url, key=secret, retries=0) as client:
            assert [one["name"] for one in client.request("GET", "/v1/experiments")["experiments"]] == ["news"]
            assert client.show("news")["name"] == "news"
            with pytest.raises(ServiceError, match="forbidden"):
                client.show("other")
            with pytest.raises(ServiceError, match="forbidden"):
                client.create("third", ROWS)


def test_a_new_version_is_built_by_replay_learns_in_shadow_and_is_activated(tmp_path):
    with served(tmp_path) as service:
        client = service.client
        client.create("news", ROWS)
        client.act("news", "start")
        for number in range(15):
            client.decide("news", ACTIONS, id=f"d{number}")
            client.reward("news", f"d{number}", number / 15)

        wide = {**ROWS, "kernel": {"class": "Gaussian", "length_scale": 3.0}}
        added = client.request("POST", "/v1/experiments/news/policies", {"policy": wide, "note": "wider"})
        assert (added["id"], added["status"]) == ("p2", "building")
        for number in range(15, 20):
            client.decide("news", ACTIONS, id=f"d{number}")
            client.reward("news", f"d{number}", number / 20)

        def is_built():
            found = client.request("GET", "/v1/experiments/news/policies/p2")
            assert found["error"] is None
            return found["status"] == "shadow"

        eventually(is_built)
        again = client.request("POST", "/v1/experiments/news/policies", {"policy": wide, "note": "wider"})
        assert (again["id"], again["status"], again["replayed"]) == ("p2", "shadow", True)
        activated = client.request("POST", "/v1/experiments/news/policies/p2/activate")
        assert activated["active"] == "p2"
        assert client.decide("news", ACTIONS, id="d20")["policy"] == "p2"
        client.reward("news", "d20", 0.5)
        service.learner.snapshot().result(PATIENCE)
        live = service.learner.experiments["news"]
        assert live.models["p1"].policy.round_index == live.models["p2"].policy.round_index == 22
        check(service.learner)
        evaluation = {"policy": "p2", "estimator": "SNIPS", "last": 100}
        estimate = client.request("POST", "/v1/experiments/news/evaluations", evaluation)
        assert estimate["n_rounds"] + estimate["n_train"] == 21
        assert estimate["estimate"]["n_rounds"] == estimate["n_rounds"]
        described = {"policy": wide, "estimator": "DR"}
        assert "value" in client.request("POST", "/v1/experiments/news/evaluations", described)["estimate"]

        assert client.request("POST", "/v1/experiments/news/policies/p1/activate")["active"] == "p1"
        with pytest.raises(ServiceError, match="is active"):
            client.request("POST", "/v1/experiments/news/policies/p1/retire")
        client.request("POST", "/v1/experiments/news/policies/p2/retire")
        with pytest.raises(ServiceError, match="shadow is activated"):
            client.request("POST", "/v1/experiments/news/policies/p2/activate")
        with pytest.raises(ServiceError, match="not-found"):
            client.request("POST", "/v1/experiments/news/evaluations", {"policy": "p9"})


def test_a_version_in_shadow_scores_without_acting(tmp_path):
    with served(tmp_path) as service:
        client = service.client
        client.create("news", ROWS, epsilon=0.0)
        client.act("news", "start")
        client.decide("news", ACTIONS, id="before")
        client.reward("news", "before", 1.0)
        bold = {**ROWS, "exploration": 50.0}
        client.request("POST", "/v1/experiments/news/policies", {"policy": bold})
        eventually(lambda: "p2" in service.learner.experiments["news"].models)

        answers = [client.decide("news", ACTIONS, id=f"d{number}", k=1 + number % 2) for number in range(6)]

        stored = [client.request("GET", f"/v1/experiments/news/decisions/d{number}") for number in range(6)]
        for answer, found in zip(answers, stored, strict=True):
            assert (answer["policy"], list(found["shadows"])) == ("p1", ["p2"])
            assert [one["id"] for one in found["ranking"]] == [one["id"] for one in answer["ranking"]]
            assert len(found["shadows"]["p2"]) == len(answer["ranking"])
            assert found["shadows"]["p2"][0]["p"] == 1.0
        same = [
            [one["id"] for one in found["shadows"]["p2"]] == [one["id"] for one in found["ranking"]] for found in stored
        ]
        assert not all(same)  # it explores where the active version exploits
        summary = client.request("GET", "/v1/experiments/news/summary")
        assert summary["shadows"] == {"p2": {"n": 6, "same": sum(same)}}
        assert client.request("GET", "/v1/experiments/news/decisions/before")["shadows"] == {}
        check(service.learner)  # a replay gives the same record
        client.act("news", "pause")
        client.decide("news", ACTIONS, id="paused")
        assert client.request("GET", "/v1/experiments/news/decisions/paused")["shadows"] == {}


def test_parquet_asks_for_pyarrow_where_it_is_not_installed(tmp_path, monkeypatch):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pyarrow.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))  # of the process that exports
    with served(tmp_path) as service:
        service.client.create("news", ROWS)

        status, _, found = send(service, "GET", "/v1/experiments/news/export.parquet")

    assert (status, found["code"]) == (501, "extra-missing")
    assert 'pip install "kernelbandits[experiments]"' in found["detail"]


def test_decisions_are_exported_as_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with served(tmp_path) as service:
        client = service.client
        client.create("news", ROWS)
        client.act("news", "start")
        client.decide("news", ACTIONS, id="d1")
        client.reward("news", "d1", 0.5)
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
        connection.request("GET", "/v1/experiments/news/export.parquet")
        response = connection.getresponse()
        data = response.read()
        connection.close()

        assert response.headers["content-type"] == "application/vnd.apache.parquet"
        rows = parquet.read_table(io.BytesIO(data)).to_pylist()
        assert [(row["id"], row["reward"], row["learned"]) for row in rows] == [("d1", 0.5, 0.5)]
