import pytest

from kernelbandits.errors import InvalidParameter
from kernelbandits.service.schemas import Limits
from kernelbandits.service.settings import Settings


def test_the_command_line_comes_before_the_environment_the_file_and_the_default(tmp_path):
    (tmp_path / "kernelbandits.toml").write_text(
        'port = 1\nhost = "file"\nsnapshot_rows = 3\n[limits]\nbody = 7\nbatch = 8\n'
    )
    given = {"PORT": "2", "HOST": "localhost", "BODY": "9"}
    environment = {f"KERNELBANDITS_SERVICE_{name}": value for name, value in given.items()}

    found = Settings.read({"data": tmp_path, "port": 4, "host": None}, environment)

    assert (found.port, found.host, found.snapshot_rows) == (4, "localhost", 3)
    assert (found.limits.body, found.limits.batch, found.limits.columns) == (9, 8, Limits().columns)
    assert Settings.read({}, {}) == Settings()
    assert Settings.read({}, {"KERNELBANDITS_SERVICE_DATA": str(tmp_path)}).port == 1
    assert Settings.read({}, {"KERNELBANDITS_DATA": "/data/sets"}) == Settings()  # the folder of data sets


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("ports = 1", "unknown settings: ports"),
        ("port = ", "not valid TOML"),
        ('port = "x"', "whole number"),
        ("port = 70000", "0 to 65535"),
        ("[limits]\nbody = -1.5", "limit"),
    ],
)
def test_wrong_settings_are_named(tmp_path, text, match):
    (tmp_path / "kernelbandits.toml").write_text(text)
    with pytest.raises(InvalidParameter, match=match):
        Settings.read({"data": tmp_path}, {})


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("example.org", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback(host, is_loopback):
    assert Settings(host=host).is_loopback == is_loopback


def test_addresses():
    assert Settings(host="::1", port=5).url == "http://[::1]:5"
    assert Settings().with_port(7).url == "http://127.0.0.1:7"
