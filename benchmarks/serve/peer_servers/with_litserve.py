"""LitServe, with batches of what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import litserve
import served


class Served(litserve.LitAPI):
    def setup(self, _device: str) -> None:
        self._model = served.load(served.arguments()[0])

    def decode_request(self, request):  # LitServe takes an annotated one for a query parameter
        return request

    def batch(self, requests: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        return requests

    def predict(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [*served.answers(self._model, requests)]

    def unbatch(self, answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return answers

    def encode_response(self, answer: dict[str, Any]) -> dict[str, Any]:
        return answer


def main() -> None:
    server = litserve.LitServer(Served(max_batch_size=32, batch_timeout=0.0), accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=served.arguments()[1], num_api_servers=1, generate_client_file=False, log_level="warning")


if __name__ == "__main__":
    main()
