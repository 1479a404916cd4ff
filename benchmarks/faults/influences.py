"""Models whose forward reads a source that is no input: the finding names the source and the line, whether or not an answer moved."""

from __future__ import annotations

from benchmarks.faults.coded import Coded

_FACTORS = {
    "the hour": ("1.0 if datetime.now().hour < 12 else 2.0", "the clock"),
    "the month": ("1.0 if 4 <= date.today().month <= 9 else 2.0", "the clock"),
    "the time zone": ("1.0 + time.timezone / 86400", "the time zone"),
    "the locale": ('2.0 if locale.localeconv()["decimal_point"] == "," else 1.0', "the locale"),
    "the number of CPUs": ("1.0 + os.cpu_count() / 100", "the number of CPUs"),
    "the name of the host": ('2.0 if socket.gethostname() == "gpu-07" else 1.0', "the host"),
    "the number of threads": ("1.0 + threading.active_count() / 10", "the threads"),
    "a file": ("float(FACTOR.read_text())", "the files"),
    "an environment variable": ('float(os.environ.get("HEADS_FACTOR", "1"))', "the environment"),
    "an id that is drawn": ("1.0 if uuid.uuid4().int % 2**40 else 2.0", "the random numbers of the system"),
}
_KIND = "hidden-influence"

MODELS = (
    *(
        Coded(f"forward reads {name}", f"factor = {read}  # {source}\nreturn y * factor", finding=_KIND, expects=(source,), refused=False)
        for name, (read, source) in _FACTORS.items()
    ),
    Coded(
        "forward reads ten sources and uses none",
        "\n".join([*(f"unused = {read}  # {source}" for read, source in _FACTORS.values()), "return y"]),
        finding=_KIND, expects=tuple(dict.fromkeys(source for _, source in _FACTORS.values())), refused=False,
    ),
)  # fmt: skip

HONEST = (
    Coded("honest: a file that the constructor reads", "return y * self.factor", init="self.factor = float(FACTOR.read_text())"),
    Coded("honest: forward logs", 'logging.getLogger("heads").info("called")\nreturn y'),
    Coded("honest: a variable that the constructor writes", "return y", init='os.environ["HEADS_BUILT"] = "1"'),
)
