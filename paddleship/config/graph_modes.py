"""The graph modes and networks of `compare-graph-modes`, and where the code of each mode is; no framework is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

NetworkName = Literal["linear", "reviews", "resnet50"]
ModeName = Literal[
    "paddle-eager",
    "paddle-static",
    "paddle-to-static",
    "paddle-sot",
    "paddle-inference",
    "paddle-inference-onednn",
    "torch-eager",
    "torchscript",
    "torch-compile",
]
NETWORKS: tuple[NetworkName, ...] = get_args(NetworkName)
REFERENCE: ModeName = "paddle-eager"


@dataclass(frozen=True)
class Mode:
    """One way to run a network: its title, its code as `module:class`, and the saved form."""

    name: ModeName
    title: str
    code: str
    form: str
    trains: bool = True

    @property
    def framework(self) -> str:
        return "torch" if self.name.startswith("torch") else "paddle"


_DYNAMIC, _STATIC, _TORCH = (f"benchmarks.graph_modes.{name}" for name in ("paddle_dynamic", "paddle_static", "torch_modes"))
MODES: dict[ModeName, Mode] = {
    mode.name: mode
    for mode in (
        Mode("paddle-eager", "Paddle eager", f"{_DYNAMIC}:PaddleEagerMode", "weights (paddle.save)"),
        Mode("paddle-static", "Paddle Program and Executor, by hand", f"{_STATIC}:Static", "program (save_inference_model)"),
        Mode("paddle-to-static", "Paddle to_static, full graph", f"{_DYNAMIC}:ToStatic", "program (jit.save)"),
        Mode("paddle-sot", "Paddle to_static, SOT", f"{_DYNAMIC}:Sot", "program (jit.save)"),
        Mode("paddle-inference", "Paddle Inference", f"{_DYNAMIC}:Inference", "program (jit.save)", trains=False),
        Mode("paddle-inference-onednn", "Paddle Inference with oneDNN", f"{_DYNAMIC}:OneDnn", "program (jit.save)", trains=False),
        Mode("torch-eager", "PyTorch eager", f"{_TORCH}:TorchEagerMode", "pickled module (torch.save)"),
        Mode("torchscript", "TorchScript, scripted and frozen", f"{_TORCH}:TorchScript", "program (torch.jit.save)"),
        Mode("torch-compile", "torch.compile", f"{_TORCH}:Compiled", "program (torch.export.save)"),
    )
}
