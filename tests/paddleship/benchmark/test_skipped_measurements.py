from paddleship.benchmark import skipped_measurements

EVERYTHING = ("one", [1, 8], [1, 2])


def points(*measured):
    return skipped_measurements.points(measured, sizes=[1, 8], counts=[1, 2, 4], thread_count=2, cores=4)


def test_points_that_there_was_no_core_or_time_for_are_notes_with_the_next_step():
    (too_many,) = points(EVERYTHING)
    assert (too_many.kind, too_many.severity) == ("not-measured", "note")
    assert "concurrency 4 " in too_many.message
    assert "benchmark.concurrency" in too_many.advice
    _, size, count = points(EVERYTHING, ("slow", [1], [1]))
    assert "batch size 8 " in size.message
    assert "for slow" in size.message
    assert "concurrency 2 " in count.message
    assert "for slow" in count.message
    assert "benchmark.max_seconds" in count.advice


def test_fewer_starts_than_were_asked_for_are_a_warning():
    (found,) = skipped_measurements.starts(1, 3)
    assert (found.kind, found.severity) == ("imprecise", "warning")
    assert "1 of 3 starts" in found.message
    assert skipped_measurements.starts(3, 3) == []
