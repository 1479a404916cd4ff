"""The OpenAPI document of a model: what follows it never fails, and the pages work in a browser."""

import json
import urllib.request

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck

from paddleship.shipped.serving.options import Options, Tokens
from tests.paddleship.shipped.serving.candidates import make_numbers, make_picking, make_pictures, make_tensors, make_texts
from tests.paddleship.shipped.serving.transports.http import browser
from tests.paddleship.shipped.serving.transports.http.running import server
from tests.paddleship.shipped.serving.transports.http.test_serving import ready

TOKEN = "a-token-of-a-test"  # noqa: S105
ASKED_AGAIN = (503, 504)  # busy, and out of the time that the request allows


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return make_texts(tmp_path_factory.mktemp("texts"))


def document(folder):
    (found,) = (client.get("/openapi.json").json() for client in ready(folder))
    return found


def test_a_row_has_the_columns_of_the_model_with_their_limits(tmp_path):
    found = document(make_tensors(tmp_path))
    number = {"type": "number", "minimum": -1, "maximum": 100}
    assert found["components"]["schemas"]["Row"] == {
        "type": "object",
        "properties": {"x": {"type": "array", "items": number, "minItems": 2, "maxItems": 2}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert found["components"]["schemas"]["Reply"]["properties"]["label"]["examples"] == ["否", "yes"]
    assert found["info"]["title"] == "tiny"
    assert {"/predict", "/metrics", "/v2/models/tiny/infer"} < found["paths"].keys()
    assert "security" not in found


def test_a_number_may_be_null_only_where_the_model_fills_it(tmp_path):
    filled, dropped = (document(make_numbers(tmp_path / missing, missing=missing)) for missing in ("mean", "drop"))
    rows = [found["components"]["schemas"]["Row"]["properties"] for found in (filled, dropped)]
    assert [row["age"]["type"] for row in rows] == [["number", "null"], "number"]
    assert [row["size"]["items"]["type"] for row in rows] == [["number", "null"], "number"]


def test_a_file_may_be_the_whole_body_or_base64(tmp_path):
    found = document(make_pictures(tmp_path))
    assert found["components"]["schemas"]["Row"]["properties"]["photo"]["contentEncoding"] == "base64"
    assert "application/octet-stream" in found["paths"]["/predict"]["post"]["requestBody"]["content"]


def ask_by_document(address, examples):
    """Ask every operation with so many requests that follow the document, and so many that nearly do: how many were sent."""
    asked, schema = 0, schemathesis.openapi.from_url(f"{address}/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in schemathesis.GenerationMode:

            @hypothesis.settings(max_examples=examples, deadline=None, database=None, suppress_health_check=[*HealthCheck])
            @hypothesis.seed(0)
            @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            def ask(case):
                nonlocal asked
                asked += 1
                response = case.call(base_url=address)
                assert response.status_code < 500 or response.status_code in ASKED_AGAIN, response.text
                case.validate_response(response, checks=[schemathesis.checks.CHECKS.get_one("response_schema_conformance")])

            try:
                ask()
            except hypothesis.errors.Unsatisfiable:
                assert mode is schemathesis.GenerationMode.NEGATIVE  # there is nothing to send wrongly
    assert schema.statistic.operations.total == 9
    return asked


@pytest.mark.parametrize(
    ("make", "examples"),
    [
        (make_texts, 8),
        (make_pictures, 8),
        (make_numbers, 8),
        *(pytest.param(make, 250, marks=pytest.mark.long) for make in (make_texts, make_picking, make_pictures)),
    ],
)
def test_what_follows_the_document_and_what_nearly_does_never_fails(tmp_path, make, examples):
    with server(make(tmp_path)) as port:
        asked = ask_by_document(f"http://127.0.0.1:{port}", examples)
    assert asked > 3 * examples


def test_pages_run_only_their_own_script_and_need_no_token(texts):
    with server(texts, Options(tokens=Tokens((TOKEN.encode(),)))) as port:
        for path in ("/", "/docs"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
            assert policy.startswith("default-src 'none'; connect-src 'self'")
            assert "unsafe" not in policy
            assert "http:" not in text.replace("http-equiv", "")
            assert "https:" not in text
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=60)


@pytest.mark.long
@pytest.mark.skipif(not browser.CHROMIUM, reason="there is no Chromium")
def test_the_form_sends_a_row_and_shows_the_answer(texts):
    with server(texts, Options(tokens=Tokens((TOKEN.encode(),)))) as port, browser.page() as page:
        page.open(f"http://127.0.0.1:{port}/")
        page.wait("!document.getElementById('token-row').hidden")
        page.run(f"document.getElementById('token').value = '{TOKEN}'; document.querySelector('#token-row button').click()")
        page.wait("!document.getElementById('form').hidden")
        page.run("document.getElementById('field-text').value = '好x'; document.getElementById('send').click()")
        page.wait("document.getElementById('status').textContent.startsWith('Answered')")
        assert json.loads(page.run("document.getElementById('answer').textContent")) == {"values": [2, 1]}
        assert '--json \'{"text":"好x"}\'' in page.run("document.getElementById('command').textContent")
        refused = [problem for problem in page.problems if "401" not in json.dumps(problem)]
        assert not refused


@pytest.mark.long
@pytest.mark.skipif(not browser.CHROMIUM, reason="there is no Chromium")
def test_the_other_page_lists_every_operation(texts):
    with server(texts) as port, browser.page() as page:
        page.open(f"http://127.0.0.1:{port}/docs")
        page.wait("document.querySelectorAll('details').length === 9")
        assert not page.problems
