"""Standard output in a locale that lacks a character."""

import subprocess
import sys

CODE = "from paddleship.system import output; output.print_any_character(); print('–')"


def test_a_character_that_the_locale_lacks_is_printed_as_an_escape():
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env={"PYTHONIOENCODING": "latin-1"}, capture_output=True, encoding="latin-1", check=True)
    assert done.stdout == "\\u2013\n"
