"""Tokens and certificates of a server, and the lines of its log."""

import json
import logging
import subprocess
import sys

import pytest

from paddleship.errors import BadInput
from paddleship.shipped.serving import options
from paddleship.shipped.serving.options import Options, Tokens
from paddleship.shipped.serving.telemetry import logs

TOKEN = b"a-token-of-a-test"


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        (b"Bearer a-token-of-a-test", True),
        (b"bearer  a-token-of-a-test ", True),
        (b"Bearer another-good-token", True),
        (b"Bearer a-token-of-a-tes", False),
        (b"Bearer a-token-of-a-test2", False),
        (b"Basic a-token-of-a-test", False),
        (b"a-token-of-a-test", False),
        (b"Bearer", False),
        (b"Bearer \xff\xfe", False),
        (b"", False),
    ],
)
def test_only_a_bearer_token_of_the_file_is_allowed(field, allowed):
    assert Tokens((TOKEN, b"another-good-token")).allow(field) is allowed


def test_the_tokens_of_a_file_are_its_lines(tmp_path):
    (tmp_path / "token").write_bytes(b"a-token-of-a-test\n\nanother-good-token\r\n")
    assert options.read_tokens(tmp_path / "token") == Tokens((TOKEN, b"another-good-token"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no token"),
        (b"\n \n", "holds no token"),
        (b"short\n", r"token 1 in .* is not one \(5 bytes\): use 16 or more"),
        (b"a-token-of-a-test\na token of a test\n", "token 2 in"),
        ("ein-schönes-Token-".encode(), "token 1 in"),
    ],
)
def test_a_file_without_good_tokens_is_refused_and_no_token_is_shown(tmp_path, content, words):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(BadInput, match=words) as caught:
        options.read_tokens(tmp_path / "token")
    assert all(line.decode() not in str(caught.value) for line in content.splitlines() if line.strip())


def test_a_file_that_cannot_be_read_and_half_a_certificate_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"cannot be read \(No such file"):
        options.read_tokens(tmp_path / "token")
    with pytest.raises(BadInput, match="give both --tls-certificate and --tls-key"):
        Options(certificate=tmp_path)
    with pytest.raises(BadInput, match="cannot be read"):
        Options(certificate=tmp_path / "certificate", key=tmp_path / "key")


def test_the_server_says_in_one_line_why_it_does_not_start(tmp_path):
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(tmp_path), "--token-file", str(tmp_path / "token")]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert (
        done.stderr
        == f"error: {tmp_path / 'token'} cannot be read (No such file or directory): mount it so that the user of the server can read it\n"
    )


def test_a_line_of_the_log_is_json_with_the_fields_of_its_record():
    record = logging.LogRecord("a.logger", logging.ERROR, __file__, 1, "a %s\nfailed", ("request",), None)
    record.fields = {"request_id": "7", "status": 500}
    try:
        raise KeyError("x")
    except KeyError:
        record.exc_info = sys.exc_info()
    (text,) = logs.JsonFormatter().format(record).splitlines()
    line = json.loads(text)
    assert line.pop("time").endswith("+00:00")
    assert "KeyError: 'x'" in line.pop("exception")
    assert line == {"level": "error", "logger": "a.logger", "message": "a request\nfailed", "request_id": "7", "status": 500}
