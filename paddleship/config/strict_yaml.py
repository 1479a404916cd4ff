"""YAML in which a mapping has each key once: PyYAML takes the last value, and DVC refuses the file."""

from __future__ import annotations

from typing import Any

import yaml


def load(text: str) -> Any:
    """The value of a YAML text. Raises yaml.YAMLError."""
    return yaml.load(text, _Loader)  # noqa: S506 it is a SafeLoader


class _Loader(yaml.SafeLoader):
    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._checked: set[yaml.MappingNode] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Check the keys before merge keys (`<<`) add those of other mappings, which the node's own replace."""
        if node not in self._checked:
            self._checked.add(node)
            seen: set[tuple[str, str]] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if (key.tag, key.value) in seen:
                        raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
                    seen.add((key.tag, key.value))
        super().flatten_mapping(node)
