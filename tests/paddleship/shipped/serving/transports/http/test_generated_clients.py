"""Clients in TypeScript and Go are generated from the OpenAPI document of a model, compiled, and ask its server."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.paddleship.shipped.serving.candidates import make_texts
from tests.paddleship.shipped.serving.transports.http.running import server
from tests.paddleship.shipped.serving.transports.http.test_openapi import document

GENERATOR = "openapi-generator-cli==7.26.0"  # OpenAPI Generator as a package of PyPI, which holds its .jar
DEBIAN = (
    "golang-1.19-go",
    "golang-1.19-src",
    "golang-gopkg-validator.v2-dev",
)  # Go, and what its generated code imports, in a version that reads no lists of rows
TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./api.ts";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const { data, response } = await client.POST("/predict", { body: { text: "好x" } });
const wrong = await client.POST("/predict", { body: { text: "" } });
console.log(JSON.stringify([response.status, data, wrong.response.status, wrong.error?.error]));
"""
GO = """
package main

import (
	"context"
	"encoding/json"
	"os"

	client "client"
)

func main() {
	settings := client.NewConfiguration()
	settings.Servers = client.ServerConfigurations{{URL: os.Args[1]}}
	api := client.NewAPIClient(settings).DefaultAPI
	ctx := context.Background()
	row := client.RowAsPredictRequest(client.NewRow("好x"))
	one, response, err := api.Predict(ctx).PredictRequest(row).Execute()
	if err != nil {
		panic(err)
	}
	texts := client.NewRequestInputsInner("text", "BYTES", []int32{2}, []string{"好x", "好"})
	both, _, err := api.Infer(ctx).Request(*client.NewRequest([]client.RequestInputsInner{*texts})).Execute()
	if err != nil {
		panic(err)
	}
	empty := client.RowAsPredictRequest(client.NewRow(""))
	_, refused, wrong := api.Predict(ctx).PredictRequest(empty).Execute()
	why := wrong.(*client.GenericOpenAPIError).Model().(client.Error)
	answers := []interface{}{response.StatusCode, one, both.Outputs[0].Data, refused.StatusCode, why.Error}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
"""

pytestmark = pytest.mark.long


@pytest.fixture
def texts(tmp_path):
    return make_texts(tmp_path / "texts")


@pytest.fixture
def run(tmp_path):
    def run(*command, **environment):
        settings = {**os.environ, **environment}
        done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def described(texts, tmp_path):
    """The server of a model, whose document lies in the folder of the test."""
    (tmp_path / "openapi.json").write_text(json.dumps(document(texts)), encoding="utf-8")
    with server(texts) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
def test_a_client_in_typescript_asks(described, run, tmp_path):
    packages = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5", "tsx@4", "@types/node@20")
    run("npm", "install", "--silent", "--no-audit", "--no-fund", *packages)
    (tmp_path / "client.mts").write_text(TYPESCRIPT, encoding="utf-8")
    run("npx", "openapi-typescript", "openapi.json", "--output", "api.ts")
    options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--allowImportingTsExtensions", "--types", "node"]
    run("npx", "tsc", *options, "client.mts")
    status, data, wrong, why = json.loads(run("npx", "tsx", "client.mts", described))
    assert (status, data) == (200, {"values": [2, 1]})
    assert (wrong, "is empty" in why) == (400, True)


@pytest.mark.skipif(not (shutil.which("java") and shutil.which("apt-get")), reason="there is no Java or no apt-get")
def test_a_client_in_go_asks(described, run, tmp_path):
    run(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", "generator", GENERATOR)
    jar = "generator/openapi_generator_cli/openapi-generator.jar"
    source, go = tmp_path / "path/src", tmp_path / "usr/lib/go-1.19"
    run("java", "-jar", jar, "generate", "-i", "openapi.json", "-g", "go", "-o", str(source / "client"))
    shutil.rmtree(source / "client/test")  # its own tests, which ask no server
    run("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *DEBIAN)
    for package in tmp_path.glob("*.deb"):
        run("dpkg-deb", "-x", str(package), ".")
    shutil.copytree(tmp_path / "usr/share/gocode/src/gopkg.in", source / "gopkg.in")
    (source / "ask").mkdir()
    (source / "ask/main.go").write_text(GO, encoding="utf-8")
    offline = {"GO111MODULE": "off", "GOROOT": str(go), "GOPATH": str(tmp_path / "path"), "GOCACHE": str(tmp_path / "cache")}
    run(str(go / "bin/go"), "build", "-o", "ask-program", "ask", **offline)
    status, data, rows, wrong, why = json.loads(run(str(tmp_path / "ask-program"), described))
    assert (status, data, rows) == (200, {"values": [2, 1]}, [2, 1, 2, 0])
    assert (wrong, "is empty" in why) == (400, True)
