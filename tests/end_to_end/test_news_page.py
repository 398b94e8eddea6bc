"""The example application: a page whose leading headline the service chooses."""

import http.client
import importlib.util
import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from services import PATIENCE, check, served, settle

SCRIPT = Path(__file__).parents[2] / "examples" / "news_page.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("news_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def opened(page):
    with page as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.headers


@pytest.fixture
def patient(example, monkeypatch):
    """The client of the page waits longer than a page should, so that a slow machine changes nothing."""

    class Patient(example.Client):
        def __init__(self, url, **options):
            super().__init__(url, **{**options, "timeout": PATIENCE})

    monkeypatch.setattr(example, "Client", Patient)


def test_a_click_is_learned_once_and_a_reader_can_be_forgotten(example, patient, tmp_path):
    with served(tmp_path) as service, opened(example.NewsPage(0, service.url)) as server:
        status, text, headers = ask(server, "/")
        cookie = {"cookie": headers["set-cookie"].partition(";")[0]}
        link = re.search(r'<h1><a href="([^"]+)">([^<]+)</a>', text)
        live = service.learner.experiments["front-page"]

        assert (status, link[2] in example.NEWS.values()) == (200, True)
        assert len(re.findall("<a href=", text)) == len(example.NEWS)
        for _ in range(2):
            status, article, _ = ask(server, link[1], **cookie)
            assert (status, link[2] in article) == (200, True)
        settle(service.learner)
        assert live.info()["n_learned"] == 1

        ask(server, "/", **cookie)
        assert ask(server, "/forget", "POST", **cookie)[0] == 303
        settle(service.learner)
        assert live.info()["n_learned"] == 0
        assert not live.entries
        assert ask(server, "/read/nothing")[0] == 404
        check(service.learner)


def test_without_the_service_the_page_leads_with_the_first_headline(example, patient, tmp_path, capsys):
    with served(tmp_path) as service:
        page = example.NewsPage(0, service.url)
    with opened(page) as server:
        status, text, _ = ask(server, "/")
        assert (status, next(iter(example.NEWS.values())) in text.partition("</h1>")[0]) == (200, True)
        assert "decision=" not in text
        assert ask(server, "/read/rome?decision=none")[0] == 200
        assert "was not stored: unreachable" in capsys.readouterr().out
