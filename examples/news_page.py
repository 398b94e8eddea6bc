"""A news page whose leading headline the decision service chooses: `python examples/news_page.py`.

Start the service first: `kernelbandits serve`. The page needs the standard library and `kernelbandits.service.Client`
only. An action is a headline, nothing else; a click is its reward, and half an hour without one counts as 0. While the
service cannot be reached, the page leads with the first headline.
"""

import argparse
import re
import secrets
from html import escape
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

from kernelbandits.service import Client, ServiceError

NEWS = {
    "rome": "Cheap flights to Rome",
    "oslo": "Oslo opens a night train to Rome",
    "lamb": "Slow cooked lamb for beginners",
    "cup": "Rome wins the cup after extra time",
    "vote": "Parliament votes on the budget again",
}
POLICY = {"class": "KernelUCB", "kernel": {"class": "Spectrum", "n": 3}, "exploration": 0.5, "budget": 500}
NAME = "front-page"


class NewsPage(ThreadingHTTPServer):
    """The page. Each request has a thread, and each thread a client."""

    def __init__(self, port, service, key=None):
        super().__init__(("127.0.0.1", port), Handler)
        self._service, self._key = service, key
        with self.client() as client:
            client.create(NAME, POLICY, wait=1_800.0, default_reward=0.0, holdout=0.1)  # again: nothing changes
            client.act(NAME, "start")

    def client(self):
        return Client(self._service, key=self._key, timeout=1.0, retries=1)

    def lead(self, reader):
        """The headline to lead with and the id of its decision, or the first headline and None."""
        first = next(iter(NEWS))
        actions = [{"id": name, "x": text} for name, text in NEWS.items()]
        try:
            with self.client() as client:
                made = client.decide(NAME, actions, baseline=first, subject=reader)
        except ServiceError:
            return first, None
        return made["action_id"], made["decision_id"]

    def clicked(self, decision):
        """Report a click; under one id, so that a second click on the same page counts for nothing."""
        try:
            with self.client() as client:
                client.reward(NAME, decision, 1.0, id="click", final=True)
        except ServiceError as problem:
            self.log(f"the click on {decision} was not stored: {problem}")

    def forget(self, reader):
        """Erase everything that was stored and learned of a reader."""
        with self.client() as client:
            client.request("POST", f"/v1/experiments/{NAME}/erase", {"subject": reader})

    def log(self, text):
        print(text, flush=True)


class Handler(BaseHTTPRequestHandler):
    """GET / is the page, GET /read/… an article, POST /forget erases the reader."""

    def do_GET(self):
        if self.path == "/":
            reader = self.reader() or secrets.token_hex(8)
            chosen, decision = self.server.lead(reader)
            click = f"?decision={quote(decision)}" if decision else ""
            lead = f'<h1><a href="/read/{chosen}{click}">{escape(NEWS[chosen])}</a></h1>'
            rest = "".join(f'<li><a href="/read/{one}">{escape(NEWS[one])}</a></li>' for one in NEWS if one != chosen)
            forget = '<form method="post" action="/forget"><button>Forget me</button></form>'
            self.answer(200, f"{lead}<ul>{rest}</ul>{forget}", {"Set-Cookie": f"reader={reader}; HttpOnly"})
            return
        place, _, given = self.path.partition("?decision=")
        name = place.removeprefix("/read/")
        if name not in NEWS:
            self.answer(404, "<p>There is no such page.</p>")
            return
        if given:
            self.server.clicked(unquote(given))
        self.answer(200, f'<h1>{escape(NEWS[name])}</h1><p>…</p><p><a href="/">Back</a></p>')

    def do_POST(self):
        if self.path == "/forget" and self.reader():
            self.server.forget(self.reader())
        self.answer(303, "", {"Location": "/", "Set-Cookie": "reader=; Max-Age=0"})

    def reader(self):
        """The reader, as the cookie says."""
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("reader")
        return cookie.value if cookie and re.fullmatch("[0-9a-f]{16}", cookie.value) else ""

    def answer(self, status, body, headers=None):
        data = f'<!doctype html><meta charset="utf-8"><title>News</title>{body}'.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Requests are not printed."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--service", default="http://127.0.0.1:8090", help="address of the service")
    parser.add_argument("--key", help="key of the service, if it needs one: decide, reward and manage")
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    with NewsPage(given.port, given.service, given.key) as page:
        page.log(f"http://127.0.0.1:{page.server_port}/ asks {given.service}")
        page.serve_forever()
