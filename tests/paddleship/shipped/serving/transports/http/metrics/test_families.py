"""The metrics of several processes as those of one server."""

from paddleship.shipped.serving.transports.http.metrics import families
from paddleship.shipped.serving.transports.http.metrics.families import COUNTER, GAUGE, Family


def process(answered, connections, started, ready=1, **refused):
    return [
        Family.of("answered_total", COUNTER, "Answers.", [("", {}, answered)]),
        Family.of("paddleship_ready", GAUGE, "Ready.", [("", {}, ready)]),
        Family.of("connections", GAUGE, "Connections.", [("", {}, connections)]),
        Family.of("refused_total", COUNTER, "Refused.", [("", {"status": status.strip("_")}, count) for status, count in refused.items()]),
        Family.of("process_start_time_seconds", GAUGE, "Start.", [("", {}, started)]),
    ]


def values(of):
    return {f"{family.name}{key}": value for family in of for key, value in family.values.items()}


def test_counts_and_gauges_are_added_and_what_is_of_the_server_is_not():
    whole = families.total(process(3, 2, 50.0, _408=1), [process(4, 1, 40.0, ready=0, _413=2)])
    assert values(whole) == {
        "answered_total": 7,
        "paddleship_ready": 1,
        "connections": 3,
        'refused_total{status="408"}': 1,
        'refused_total{status="413"}': 2,
        "process_start_time_seconds": 40.0,
    }


def test_a_process_that_has_ended_has_its_counts_and_no_connections():
    whole = values(families.total(process(3, 2, 50.0), ended=[process(4, 9, 40.0)]))
    assert (whole["answered_total"], whole["connections"], whole["process_start_time_seconds"]) == (7, 2, 50.0)


def test_families_are_read_as_they_were_packed():
    own = process(3, 2, 50.0, _408=1)
    assert families.unpacked(families.packed(own)) == own
    assert families.unpacked(b"") == []


def test_a_name_that_a_text_cannot_hold_is_escaped():
    family = Family.of("info", GAUGE, "Info.", [("", {"model": 'a"b\\c\nd'}, 1)])
    assert families.text([family]) == '# HELP info Info.\n# TYPE info gauge\ninfo{model="a\\"b\\\\c\\nd"} 1\n'
