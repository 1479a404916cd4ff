"""Secrets that mean nothing, planted where real ones are, and a search for them in all that was left."""

import base64
import io
import json
import os
import tarfile
from pathlib import Path
from urllib.parse import quote

_SECRETS = {name: f"c4nary-of-nobody/{name}+Zq9&" for name in ("registry", "mlflow", "aws", "prefect", "remote")}


def environment(folder):
    """The environment of a user who has credentials for everything; `folder` gets Docker's configuration."""
    login = base64.b64encode(f"ada:{_SECRETS['registry']}".encode()).decode()
    (folder / "docker").mkdir()
    (folder / "docker/config.json").write_text(json.dumps({"auths": {"registry.invalid": {"auth": login}}}))
    return {
        "DOCKER_CONFIG": str(folder / "docker"),
        "DOCKER_AUTH_CONFIG": (folder / "docker/config.json").read_text(),
        "MLFLOW_TRACKING_USERNAME": "ada",
        "MLFLOW_TRACKING_PASSWORD": _SECRETS["mlflow"],
        "AWS_ACCESS_KEY_ID": "ada",
        "AWS_SECRET_ACCESS_KEY": _SECRETS["aws"],
        "PREFECT_API_AUTH_STRING": f"ada:{_SECRETS['prefect']}",
    }


def of_remote(checkout):
    """Add the credentials of another remote to DVC's local configuration, and return that file."""
    path = checkout / ".dvc/config.local"
    lines = ["['remote \"bucket\"']", "    url = s3://bucket.invalid/rows", f"    secret_access_key = {_SECRETS['remote']}"]
    path.write_text("\n".join(lines) + "\n")
    return path


def address(port):
    """The address of an MLflow server that is not there, with user and password."""
    return f"http://ada:{quote(_SECRETS['mlflow'], safe='')}@127.0.0.1:{port}"


def in_folder(folder, *, apart_from=()):
    """The places below a folder that hold a canary, by file and by member of an archive; SQLite stores text as it is."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and path not in apart_from]
    return [f"{path}: {name}" for path in files for name in in_bytes(path.read_bytes())]


def in_image(client, identity):
    """The places of an image that hold a canary: manifest, configuration with history and labels, and every file of every layer."""
    stream = io.BytesIO(b"".join(client.images.get(identity).save()))
    found = []
    with tarfile.open(fileobj=stream) as image:
        for member in image:
            content = image.extractfile(member).read() if member.isfile() else b""
            found += [f"{member.name}: {name}" for name in in_bytes(content)]
    return found


def in_bytes(content):
    """The names of the canaries in some bytes, in plain, quoted for an address or JSON, or in base64 at any place of a longer text."""
    if not any(beginning in content for beginning in _BEGINNINGS):
        return []
    return [name for name, forms in _FORMS.items() if any(form in content for form in forms)]


def _forms(secret):
    plain = secret.encode()
    shifted = [base64.b64encode(b"x" * shift + plain)[4 if shift else 0 : -4] for shift in range(3)]
    return [plain, json.dumps(secret)[1:-1].encode(), quote(secret).encode(), quote(secret, safe="").encode(), *shifted]


_FORMS = {name: _forms(secret) for name, secret in _SECRETS.items()}
_BEGINNINGS = {os.path.commonprefix(same) for same in zip(*_FORMS.values(), strict=True)}  # noqa: RUF071 they are no paths
