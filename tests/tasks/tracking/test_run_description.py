"""The description of a run: its figures have the units and digits of the pages."""

from paddleship.tracking import run_description
from tests.paddleship.pages import made


def test_the_figures_of_a_candidate_read_as_on_its_page():
    reports = made.reports(p50=0.00667)
    reports[3].candidates["onnxruntime"] |= {"p99_ms": 1.5, "peak_memory_bytes": 121e6, "throughput_per_s": 60854.3, "noise_ratio": 0.0123}
    text = run_description.markdown(reports, links={}).replace("\xa0", " ")
    assert "| candidate | p50 | p99 | rows/s | memory | noise ratio | verdict |" in text
    assert "| **onnxruntime** | 6.67 µs | 1.50 ms | 60,854 | 121 MB | 0.0123 | **winner** |" in text
    assert "| paddle | 13.3 µs | – | – | – | 0.900 | measured |" in text
