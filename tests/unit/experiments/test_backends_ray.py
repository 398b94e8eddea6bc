import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import pytest

from kernelbandits.errors import InvalidParameter, NotSupported
from kernelbandits.experiments.backends import check_address, check_reachable
from kernelbandits.experiments.runner import run
from kernelbandits.experiments.study import Study
from small_studies import bytes_of

PATIENCE = 600.0
"""Seconds to wait for what has to come: much more than it takes, also on a machine that does other work."""

STUDY = """
name = "far"
horizon = 40
seeds = 2
[environments.smooth]
class = "SyntheticRKHS"
kernel = { class = "Gaussian", length_scale = 0.2 }
n_actions = 6
n_features = 2
[policies.KernelUCB]
class = "KernelUCB"
kernel = { class = "Gaussian", length_scale = 0.2 }
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def make_cluster(result):
    """The address of a cluster of one processor; its processes and its files end with the block."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--port={port}"]
    options = ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--include-dashboard=false", "--disable-usage-stats"]
    with (
        TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,  # names of sockets must be short
        result.open("w") as output,
    ):
        head = subprocess.Popen(
            [*command, *options, f"--temp-dir={folder}"], stdout=output, stderr=output, start_new_session=True
        )
        try:
            wait_for(head, result)
            yield f"127.0.0.1:{port}"
        finally:
            head.terminate()
            head.wait(timeout=PATIENCE)
            with suppress(ProcessLookupError):  # who is left of its group
                os.killpg(head.pid, signal.SIGKILL)


def wait_for(head, result):
    due = monotonic() + PATIENCE
    while "Ray runtime started" not in result.read_text():
        assert head.poll() is None, result.read_text()
        assert monotonic() < due, result.read_text()
        sleep(0.2)


@pytest.mark.parametrize("address", [None, "auto", "local", "127.0.0.1:6379", "head.example:1", "[::1]:6379"])
def test_addresses_that_ray_takes_are_taken(address):
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address", ["", "nonsense", "host:", ":6379", "host:port", "host:0", "host:65536", "http://a:1", 7]
)
def test_anything_but_an_address_is_rejected(address):
    with pytest.raises(InvalidParameter, match="The address of a Ray cluster is HOST:PORT or 'auto', got"):
        check_address(address)


def test_addresses_of_the_client_are_rejected_with_the_way_out():
    with pytest.raises(NotSupported, match=r"not through Ray's client, got 'ray://a:10001'. Give the HOST:PORT"):
        check_address("ray://a:10001")


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_a_place_where_nothing_listens_is_reported_in_seconds(host, monkeypatch):
    patience, honest = [], socket.create_connection

    def noted(place, timeout):
        patience.append(timeout)
        return honest(place, timeout)

    monkeypatch.setattr(socket, "create_connection", noted)

    with pytest.raises(InvalidParameter, match=r"The address '.*' does not answer.*Start a cluster there"):
        check_reachable(f"{host}:{free_port()}")

    assert patience
    assert max(patience) < 10


def test_negative_control_a_place_where_somebody_listens_is_left_alone():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        check_reachable(f"127.0.0.1:{listener.getsockname()[1]}")

    check_reachable("auto")
    check_reachable(None)


@pytest.mark.long
def test_a_cluster_at_an_address_gives_the_same_bytes(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    (tmp_path / "token").write_text(secrets.token_hex(32))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    (tmp_path / "study.toml").write_text(STUDY)
    run(Study.from_toml(tmp_path / "study.toml"), tmp_path / "local", workers=1)

    with make_cluster(tmp_path / "ray.log") as address:
        command = [sys.executable, "-m", "kernelbandits", "run", str(tmp_path / "study.toml"), "--engine", "ray"]
        where = ["--address", address, "--into", str(tmp_path / "ray")]
        # A process of its own, because Ray reads its settings once, when it is imported.
        played = subprocess.run([*command, *where], capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert played.returncode == 0, played.stderr
    assert len(bytes_of(tmp_path / "ray")) == 2
    assert bytes_of(tmp_path / "ray") == bytes_of(tmp_path / "local")
