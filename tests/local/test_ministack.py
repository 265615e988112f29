"""Two checkouts never meet, and nothing of the developer's own AWS is in either."""

import socket
from pathlib import Path

import pytest

from infra.local import ministack
from infra.local.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / ".local")
    home.prepare()
    return home


def test_the_port_of_last_time_is_taken_again(home: Home) -> None:
    port = ministack.choose_port(home)
    home.port.write_text(str(port))
    assert ministack.choose_port(home) == port


def test_a_port_that_another_has_taken_is_left_to_it(home: Home) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        home.port.write_text(str(taken))
        assert ministack.choose_port(home) != taken


@pytest.mark.parametrize("text", ["", "no number", "70000", "-1"])
def test_a_port_file_that_makes_no_sense_is_passed_over(home: Home, text: str) -> None:
    home.port.write_text(text)
    assert 1024 <= ministack.choose_port(home) < 65536


def test_the_developers_own_aws_is_out_of_reach(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "theirs")
    home.port.write_text("4566")
    environment = ministack.client_environment(home)
    assert "theirs" not in environment.values()
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566"


def test_a_server_that_cannot_start_says_why(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.local.ministack.sys.executable", "/bin/false")
    with pytest.raises(ministack.ServerError, match="did not start"):
        ministack.start(home)
    assert not ministack.running(home)
