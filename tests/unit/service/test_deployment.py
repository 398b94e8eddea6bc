"""Files of a deployment: they name what there is, and the pages about them say all of it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kernelbandits.service.api import endpoints
from kernelbandits.service.problems import CODES
from kernelbandits.service.settings import Settings
from services import PATIENCE, ROWS, experiment, served

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
GUIDE = (ROOT / "docs" / "guides" / "operating-the-service.md").read_text(encoding="utf-8")
METRIC = re.compile(r"kernelbandits_[a-z_]+")


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def rules():
    return [rule for group in read("alerts.yml")["groups"] for rule in group["rules"]]


def family(name):
    return re.sub(r"_(bucket|sum|count|total|created)$", "", name)


def test_alerts_name_metrics_routes_and_codes_that_exist(tmp_path):
    with served(tmp_path) as service:
        experiment(service.learner, policy=ROWS)
        service.learner.snapshot().result(PATIENCE)
        text = service.app.state.service.metrics.text().decode()
    known = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    documented = set(METRIC.findall(GUIDE))

    assert {family(name) for name in known} == {family(name) for name in documented}
    for rule in rules():
        used = set(METRIC.findall(rule["expr"]))
        assert {family(name) for name in used} <= {family(name) for name in known}, rule["alert"]
        assert used or rule["expr"].startswith("up{")
        for path in re.findall(r'route="([^"]+)"', rule["expr"]):
            assert path in {one.path for one in endpoints()}
        for codes in re.findall(r'code=~"([^"]+)"', rule["expr"]):
            assert set(codes.split("|")) <= set(CODES)


def test_alerts_have_the_form_of_prometheus_and_are_in_the_guide():
    names = [rule["alert"] for rule in rules()]

    assert len(set(names)) == len(names)
    assert {f"`{name}`" for name in names} == set(re.findall(r"`Kernelbandits\w+`", GUIDE))
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
        for opened, closed in ("()", "{}", "[]"):
            assert rule["expr"].count(opened) == rule["expr"].count(closed)


def test_compose_mounts_files_that_exist_and_keeps_the_service_behind_the_proxy():
    services = read("compose.yaml")["services"]
    volumes = set(read("compose.yaml")["volumes"])

    assert "ports" not in services["service"]
    assert services["prometheus"]["ports"] == ["127.0.0.1:9090:9090"]
    for one in services.values():
        for mount in one["volumes"]:
            source = mount.partition(":")[0]
            assert source in volumes or (DEPLOY / source).is_file() or source == "./metrics.key"
    assert (DEPLOY / services["service"]["build"]["context"] / services["service"]["build"]["dockerfile"]).is_file()
    for name in ("Caddyfile", "prometheus.yml"):
        assert "service:8090" in (DEPLOY / name).read_text(encoding="utf-8")


def test_the_image_names_settings_and_files_that_exist():
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M) for name in line.split()[:-1]]
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    given = dict(re.findall(r"(KERNELBANDITS_\w+)=(\S+)", text))
    settings = Settings.read({}, given)

    assert all((ROOT / name).exists() and f"!{name}" in kept for name in copied)
    assert (str(settings.data), settings.host, settings.port) == ("/data", "0.0.0.0", 8090)
    assert settings.is_loopback is False
    assert f"127.0.0.1:{settings.port}/healthz" in text


def test_the_page_of_the_interface_lists_every_endpoint_and_code():
    page = (ROOT / "docs" / "reference" / "service-api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| `(\S+)` \| (\w+) \| (.+) \|$", page, re.M)

    listed = [(one.method, one.path, one.scope or "none", one.summary) for one in endpoints()]
    assert [row for row in rows if row[0].isalpha()] == listed
    assert re.findall(r"^\| (\d+) \| `(\S+)` \| (.+) \|$", page, re.M) == [
        (str(status), code, title) for code, (status, title) in CODES.items()
    ]


LINTERS = {
    "alerts.yml": ("promtool check rules alerts.yml", "[5m]", "[5 m"),
    "prometheus.yml": ("promtool check config --syntax-only prometheus.yml", "scrape_interval:", "scrape_intervals:"),
    "Dockerfile": ("hadolint Dockerfile", "USER 10001", "USERS 10001"),
    "Caddyfile": ("caddy validate --adapter caddyfile --config Caddyfile", "reverse_proxy", "reverse_proxies"),
    "compose.yaml": ("docker compose --file compose.yaml config --quiet", "restart:", "restarts:"),
}
"""For each file its linter, and a mistake that it finds."""


@pytest.mark.parametrize("name", LINTERS)
def test_the_linter_of_each_file_accepts_it_and_finds_a_mistake(tmp_path, name):
    command, right, wrong = LINTERS[name]
    program = command.split()
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    if program[:2] == ["docker", "compose"] and subprocess.run(program[:2], capture_output=True).returncode:
        pytest.skip("docker has no compose")
    for path in DEPLOY.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "metrics.key").touch()

    def lint():
        environment = {**os.environ, "SITE": "decisions.example.org", "XDG_DATA_HOME": str(tmp_path)}
        return subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, env=environment)

    done = lint()
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / name).write_text((tmp_path / name).read_text().replace(right, wrong))
    assert lint().returncode != 0
