"""The pages for people: a form to try the model at `/`, and its operations at `/docs`.

They hold nothing of the model, and load nothing from other servers: their scripts read `openapi.json`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from starlette.responses import Response

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_ALWAYS = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@cache
def page(name: str) -> Response:
    """The page of a file here, with a policy that lets only its own script and style run."""
    text = Path(__file__).with_name(f"{name}.html").read_text(encoding="utf-8")
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, content in _INLINE.findall(text):
        hashes[kind].append("'sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() + "'")
    policy = "; ".join([_ALWAYS, *(f"{kind}-src {' '.join(values)}" for kind, values in hashes.items())])
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return Response(text, headers=headers, media_type="text/html")
