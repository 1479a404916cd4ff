"""The messages of the protocol, from open_inference.proto, in a pool of their own so that no other copy of the protocol meets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

SERVICE = "inference.GRPCInferenceService"
_COMPILED = Path(__file__).with_name("open_inference.binpb")


def _load() -> dict[str, Any]:
    """The classes of all messages by name."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(_COMPILED.read_bytes()).file:
        pool.Add(file)
    messages = pool.FindFileByName("open_inference.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(found) for name, found in messages.items()}


CLASSES = _load()
ModelInferRequest, ModelInferResponse = CLASSES["ModelInferRequest"], CLASSES["ModelInferResponse"]
