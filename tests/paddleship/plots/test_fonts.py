"""Names in charts in a script for which there is no font, and with one that a user installed."""

import os
import subprocess
import sys

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from paddleship.diagnosis import plots

NAME = "\U000f1234\U000f1235"  # of a private plane, which fonts leave empty
DRAW = f"""
import sys
from pathlib import Path
from paddleship.plots import charts, fonts
print(*fonts.for_names(["good", {NAME!r}]), sep="\\n")
charts.confusion([0, 1, 1], [0, 1, 0], ["good", {NAME!r}], "paddle", Path(sys.argv[1]), "flips.png")
"""


@pytest.fixture
def draw(tmp_path):
    """Draw decisions about a class of that name in the home of a user. Returns the families, which names cannot be drawn, and the bytes."""
    home = tmp_path / "home"

    def run():
        environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "share"), "MPLCONFIGDIR": str(home / "matplotlib")}
        done = subprocess.run([sys.executable, "-c", DRAW, str(tmp_path)], env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return [*done.stdout.splitlines(), (tmp_path / "flips.png").read_bytes()]

    run.fonts = home / "share/fonts"
    return run


def install(folder):
    """A font of its own with squares for the letters of NAME."""
    folder.mkdir(parents=True)
    pen = TTGlyphPen(None)
    for move, point in (("moveTo", (100, 0)), ("lineTo", (100, 700)), ("lineTo", (800, 700)), ("lineTo", (800, 0))):
        getattr(pen, move)(point)
    pen.closePath()
    square = pen.glyph()
    font = FontBuilder(1000)
    font.setupGlyphOrder([".notdef", "square"])
    font.setupCharacterMap(dict.fromkeys(map(ord, NAME), "square"))
    font.setupGlyf({".notdef": square, "square": square})
    font.setupHorizontalMetrics({".notdef": (900, 100), "square": (900, 100)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Old Squares", "styleName": "Regular"})
    font.setupOS2(usWeightClass=500)
    font.setupPost()
    font.save(folder / "squares.ttf")


def test_a_name_that_no_font_can_draw_is_a_number_until_a_font_is_installed(draw):
    families, undrawn, numbered = draw()
    assert families == "['DejaVu Sans']"
    assert undrawn == "[1]"
    install(draw.fonts)  # the list of fonts that matplotlib keeps is older
    families, undrawn, named = draw()
    assert families == "['DejaVu Sans', 'Old Squares']"
    assert undrawn == "[]"
    assert named != numbered


def test_the_legend_of_numbered_classes_is_a_note():
    assert plots.undrawn(["good", "bad", "Ωμέγα"]) is None
    note = plots.undrawn(["good", NAME])
    assert note.severity == "note"
    assert f"1 is {NAME!r}" in note.message
    assert "0 is" not in note.message
