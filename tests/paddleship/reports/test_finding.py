import pytest

from paddleship.reports.finding import Finding


@pytest.mark.parametrize(
    ("message", "layer", "place"),
    [
        ("switching off some_pass alone is enough", "some_pass", ""),
        ("weights hold NaN or infinity: a.weight in 16 of its 16 values", "a.weight", ""),
        ("its error is 12 × eager's own noise", "blocks.1", " in blocks.1"),
        ("it differs in 1 of 32 values", "1", " in 1"),
    ],
)
def test_a_layer_that_the_message_names_is_not_named_again(message, layer, place):
    assert str(Finding("wrong-pass", "error", message, layer=layer)) == f"error: wrong-pass: {message}{place}"
