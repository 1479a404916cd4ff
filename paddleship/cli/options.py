"""Options that several commands have."""

from __future__ import annotations

import click

from paddleship.reports.order import STAGES

OVERLAY = click.option("--params", metavar="FILE", help="a file laid over params.yaml, such as examples/linear/params.yaml")
UNTIL = click.option("--until", type=click.Choice(STAGES), default="accept", show_default=True, help="the last stage to run")
JSON = click.option("--json", "as_json", is_flag=True, help="print JSON")
