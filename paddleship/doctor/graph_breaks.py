"""Explain why a model does not become one static graph: Paddle's errors in plain words, and SOT's graph breaks.

For a child process. Full-graph conversion stops at the first error. SOT (Paddle's bytecode translator) continues and records a typed
reason for each graph break, so it shows the other locations.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paddleship.conversion import exporting
from paddleship.conversion.exporting import SavedProgram
from paddleship.doctor import ast_lint, size_reads
from paddleship.doctor.obstacle import Obstacle
from paddleship.errors import ModelError, OutputError
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import explain, is_users, user_line
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.system import crash_location

_TENSOR_TO_PYTHON = "keep the value a tensor: use a Paddle operation instead (paddle.maximum, paddle.where, paddle.arange, …)"
_LIKE_SIDES = "give both sides of the `if` the same names, dtypes and ranks, or choose with paddle.where"


@dataclass(frozen=True)
class _Known:
    """A known error text of Paddle (a regular expression), as a finding, with the pattern of ast_lint that may be its cause."""

    expression: str
    kind: str
    message: str
    advice: str
    pattern: str = ""


_KNOWN = [
    _Known(
        r"is not involved in the target_vars",
        "unused-input",
        "a declared input does not affect any output",
        "remove it from the inputs and from forward, or use it",
    ),
    _Known(
        r"requires .* arguments.*(but received|but not found)",
        "signature",
        "the declared inputs do not match the arguments of forward",
        "write forward(self, …) with one named argument for each input",
    ),
    _Known(
        r"assignment to (parameter|sublayer)|has no attribute 'set_value'",
        "parameter-assignment",
        "forward assigns to a weight, which a static program cannot do",
        "use a local tensor instead: weight = self.weight / norm; F.linear(x, weight)",
    ),
    _Known(
        r"num_regions\(\)",
        "crash",
        "the saved program has an `if` or a loop without its body, so Paddle does not load it",
        "write the loop or `if` with fewer levels inside each other, or report the program to Paddle",
    ),
    _Known(
        r"different return type|Unsupported return type of true_fn|Unsupported return type.*in cond|control_flow_op\.cc|"
        r"(true|false)_fn.*(return|dtype|shape)|(false|true)_var returned",
        "branch-mismatch",
        "the two sides of an `if` on a tensor return different names, dtypes or ranks",
        _LIKE_SIDES,
    ),
    _Known(
        r"UndefinedVar",
        "branch-mismatch",
        "a variable that this line uses has a value on one side of an `if` only",
        "assign it on both sides of the `if`, with the same dtype and rank",
        ast_lint.ONE_SIDED,
    ),
    _Known(
        r"rank inconsistency|dim1\.size\(\) == dim2\.size\(\)",
        "branch-mismatch",
        "the two sides of an `if` return tensors of different rank",
        _LIKE_SIDES,
    ),
    _Known(
        r"python while pred change from bool to variable",
        "graph-break",
        "a `break` that depends on a tensor's value leaves a loop over Python numbers",
        "loop on a tensor (`while` on a tensor), or run all iterations and choose with paddle.where",
        ast_lint.LEFT_BY_BREAK,
    ),
    _Known(
        r"Only support paddle::dialect::DenseTensorType",
        "graph-break",
        "a list that is filled in a loop over a tensor becomes a tensor array, which does not support this",
        "loop over a Python number (a fixed size, not paddle.to_tensor of it), or use paddle.stack on the list",
        ast_lint.FILLED_IN_LOOP,
    ),
    _Known(
        r"argument \(position \d+\) must be \w+, but got str",
        "graph-break",
        "a number is passed as a string, which only eager mode accepts",
        "pass a number: float('-inf'), not '-inf'",
    ),
    _Known(
        r"should be one of \[.*Variable.*\]. but received ?: ?Value\(",
        "graph-break",
        "this code was written for the static graphs of Paddle 2; Paddle 3 uses PIR",
        "call paddle._C_ops in both modes, as Paddle 3 does (paddle.base.framework.in_dynamic_or_pir_mode()), or update the library",
    ),
    _Known(
        r"__array_ufunc__|called numpy API|cannot be interpreted as an integer|bool\(Tensor\)|float\(Tensor\)|int\(Tensor\)|len\(Tensor\)|"
        r"could not convert string to float: 'Value|indices must be integers or slices, not paddle|KeyError: '?Value\(|"
        r"unhashable type.*Value|can't be used (in|under) .*static|please use other API to replace|numpy api can not handle|"
        r"pir\.Value.*(numpy|item|tolist)",
        "python-value",
        "a tensor is converted to a Python value, but tensors have no values during conversion",
        _TENSOR_TO_PYTHON,
    ),
    _Known(
        r"Hint: Expected .* but received [^.\n]*:-1\b",
        "graph-break",
        "a size that this line needs is unknown during conversion (-1)",
        "in the reshape before it, use numbers for the sizes and -1 for the batch: [-1, 16, 4, 4], not [x.shape[0], -1, 4, 4]",
    ),
    _Known(
        r"ArrayToTensor must be equal",
        "graph-break",
        "a list that is filled in a loop holds tensors of different shapes, which a program cannot join",
        "pad the parts to one shape, or concatenate them one by one in the loop",
        ast_lint.FILLED_IN_LOOP,
    ),
    _Known(
        r"Not support zip\(tensor",
        "graph-break",
        "zip() takes a tensor whose first size is unknown during conversion",
        "loop over the numbers of its rows, and index the tensors in the loop: for i in range(tensor.shape[0]): row = tensor[i]",
    ),
    _Known(
        r"object of type '[\w.]*Value' has no len\(\)",
        "graph-break",
        "this line needs the length of a tensor, which is no Python number during conversion",
        "write tensor.shape[0] instead of len(tensor), or loop over its rows: for i in range(tensor.shape[0])",
    ),
    _Known(
        r"topologically sorted.*array_write",
        "unsupported-operator",
        "a list is filled in a loop over a tensor, which the converter to ONNX does not support",
        "loop over a Python number, or write the parts into a tensor of fixed size (out[:, i] = part), or ship another runtime",
        ast_lint.FILLED_IN_LOOP,
    ),
    _Known(
        r"^KeyError: '\w+\.[wb]_\d+'|'NoneType' object has no attribute 'get_tensor'|is not initialized",
        "unregistered-layer",
        "forward uses a weight that is not registered in the model",
        "create layers in __init__ and store them on self, in nn.LayerList or nn.LayerDict",
    ),
    _Known(
        r"parameter name \[.*\] have be been used",
        "shared-name",
        "two parameters have the same ParamAttr name",
        "remove the names, or use different ones",
    ),
]
_GROUPS = "give each row weights of its own with paddle.matmul instead (of F.unfold where the kernel is larger than 1)"
_KNOWN_SIZE = (
    "give numbers to the reshape before it, and -1 to the batch only ([-1, 16, 4, 4], not [x.shape[0], -1, 4, 4]), or declare the "
    "dimension as a number"
)
_MISSING = re.compile(r"'[\w.]*pir\.Value' object has no attribute '(\w+)'")
_FIND_LINE = "convert the sublayers one by one with paddle.jit.to_static to find the line"
_DYNAMIC = "make the code work for every size, or declare the dimension as a number"
ADVICE = {"python-value": _TENSOR_TO_PYTHON, "dynamic-shape-branch": _DYNAMIC, "branch-mismatch": _LIKE_SIDES}
_AGREES = {
    "python-value": r"Value|Tensor|numpy|float\(|int\(|bool\(",
    "dynamic-shape-branch": r"-1\b|[Uu]ndefined|NoneType|\b(rank|dims?|shape)\b|Value",
    "branch-mismatch": r"NoneType|[Uu]ndefined|None\b|different",
}  # what Paddle's error must say, so that a suspicious expression on its line is taken as the cause
_KINDS_OF_BREAK = {
    "DataDependencyDynamicShapeBreak": "dynamic-shape-branch",
    "DataDependencyOperationBreak": "python-value",
    "UnsupportedNumPyAPIBreak": "python-value",
    "UnsupportedRandomAPIBreak": "random-forward",
}


def convert(source_model: SourceModel, folder: Path, specs: Sequence[TensorSpec]) -> tuple[SavedProgram | None, Obstacle | None]:
    """Export as `paddleship.conversion.exporting` does. Returns facts about the program, or the error."""
    try:
        with size_reads.watching() as lines, crash_location.origins_recorded():
            return exporting.save_program(source_model, folder, specs), None
    except OutputError as error:
        return None, outputs(error)
    except ModelError as error:
        cause = error.__context__ or error
        short, where = explain(cause), user_line(cause)
    misread = size_reads.of_error((short, where), lines, partial(_convert_again, source_model, specs))
    return None, misread or classify(short, f"{type(cause).__name__}: {cause}", where)


def _convert_again(source_model: SourceModel, specs: Sequence[TensorSpec]) -> tuple[str, str | None] | None:
    """The error of another conversion, with its line; None if there is none."""
    try:
        with tempfile.TemporaryDirectory() as work:
            exporting.save_program(source_model, Path(work), specs)
    except ModelError as error:
        cause = error.__context__ or error
        return explain(cause), user_line(cause)
    return None


def outputs(error: OutputError) -> Obstacle:
    """A finding about outputs that a program cannot return."""
    advice = "return tensors, or a dict, list or tuple of them"
    return Obstacle("output-structure", "error", f"forward returns something that a program cannot return ({error})", advice, error.where)


def classify(short: str, text: str, where: str | None, *, otherwise: str = "graph-break") -> Obstacle:
    """Classify an error of Paddle. `short` is quoted in the message; `text` is the whole error."""
    patterns = {suspect.pattern for suspect in ast_lint.at(where)}
    short = short.replace(f" at {where}", "")  # the finding has the location itself
    for known in _KNOWN:
        if not re.search(known.expression, text, re.IGNORECASE | re.MULTILINE):
            continue
        kind, message, advice = known.kind, known.message, known.advice
        if known.pattern == ast_lint.ONE_SIDED:
            return _one_sided(known, where, short)
        if kind == "branch-mismatch" and "dynamic-shape-branch" in patterns:
            return Obstacle(
                "dynamic-shape-branch",
                "error",
                f"{message}, and the condition uses a dynamic size ({_line(where, short)})",
                _DYNAMIC,
                where,
            )
        if kind == "python-value" and (size := ast_lint.size(where)):
            message, advice = f"{size!r} is a size that is unknown during conversion, and this line needs its number", _KNOWN_SIZE
        if kind == "python-value" and ast_lint.GROUPED in patterns:
            message, advice = "the number of groups of this convolution is a dynamic size; it must be a constant", _GROUPS
        return Obstacle(kind, "error", f"{message} ({_line(where, short)})", advice, where, pattern=known.pattern)
    for kind in ADVICE:
        if otherwise == "graph-break" and kind in patterns and agrees(kind, text):
            return Obstacle(kind, "error", f"this line cannot be converted: {short}", ADVICE[kind], where)
    if otherwise == "bad-model":
        return Obstacle("bad-model", "error", short, "", where)
    return _unknown(short, text, where, otherwise)


def _unknown(short: str, text: str, where: str | None, kind: str) -> Obstacle:
    """An error whose wording is not known; of an attribute that tensors lack, with its name."""
    if kind == "graph-break" and (missing := _MISSING.search(text)):
        message = f"tensors have no {missing[1]!r} during conversion ({_line(where, short)})"
        advice = f"do not use {missing[1]!r} in forward; if it is a check, remove it, and keep only the side that eager mode takes"
        return Obstacle(kind, "error", message, advice, where)
    advice = "rewrite this line with tensors" if ast_lint.is_statement(where) else _FIND_LINE
    return Obstacle(kind, "error", f"the model cannot be converted to one static graph: {short}", advice, where)


def _one_sided(known: _Known, where: str | None, short: str) -> Obstacle:
    """A variable without a value, at the `if` that leaves it so; at the line that uses it if several can be the cause."""
    ifs = ast_lint.one_sided(where)
    sized = [(location, condition) for location, condition in ifs if ".shape" in condition or "len(" in condition]
    causes = sized or ifs
    if len(causes) != 1 or where is None:
        return Obstacle(known.kind, "error", f"{known.message} ({_line(where, short)})", known.advice, where)
    ((location, condition),) = causes
    use = f"`{_line(where, short)}`, line {where.rpartition(':')[2]}"
    message = f"a variable has a value on one side of `if {condition}` only, and is used later ({use})"
    return Obstacle(known.kind, "error", message, known.advice, location)


def agrees(kind: str, text: str) -> bool:
    """Whether an error of Paddle speaks of what an expression of this kind causes."""
    return re.search(_AGREES[kind], text) is not None


def collect(source_model: SourceModel, batches: Sequence[Batch]) -> list[Finding]:
    """The graph breaks of a new instance, by line: warnings, and notes for lines that only SOT cannot convert.

    Eager answers these batches, so an error of SOT itself is not an error of the model.
    """
    os.environ["SOT_COLLECT_INFO"] = "breakgraph_reason"
    import paddle
    from paddle.jit.sot.opcode_translator.executor.opcode_executor import OpcodeExecutorBase
    from paddle.jit.sot.utils.exceptions import SotErrorBase
    from paddle.jit.sot.utils.info_collector import InfoCollector

    findings: dict[str, Finding] = {}

    def register(info: Any) -> None:
        where = _break_line(OpcodeExecutorBase.call_stack)
        if where is not None and hasattr(info, "reason"):
            findings.setdefault(where, _break(info.reason, where))

    InfoCollector().register = register
    layer = source_model.build()
    building.restore(layer, source_model.checkpoint)
    layer.eval()
    form = building.form(layer, source_model.model)
    static = paddle.jit.to_static(layer, full_graph=False)
    for batch in batches:
        try:
            with paddle.no_grad():
                static(*form.give({name: paddle.to_tensor(array) for name, array in batch.items()}))
        except Exception as failure:
            where = user_line(failure)
            if where is not None and not isinstance(failure, SotErrorBase):
                findings.setdefault(where, classify(explain(failure), str(failure), where))
            break
    return list(findings.values())


def _line(where: str | None, short: str) -> str:
    return ast_lint.text(where) if where else short


def _break_line(stack: Sequence[Any]) -> str | None:
    """The innermost line of the user's code at the translator; None at the artificial start of a resumed function."""
    for executor in reversed(stack):
        code = executor.vframe.code
        if is_users(code.co_filename):
            resumed = code.co_name.startswith("$resume") and executor._current_line <= code.co_firstlineno
            return None if resumed else f"{code.co_filename}:{executor._current_line}"
    return None


def _break(reason: Any, where: str) -> Finding:
    name = type(reason).__name__
    text = " ".join(str(reason).split())[:200]
    kind = _KINDS_OF_BREAK.get(name, "python-value" if re.search(r"float'|int'|bool'|ndarray|numpy|zeros|Tensor", text) else "graph-break")
    if kind == "graph-break" or (kind == "python-value" and not any(suspect.pattern == kind for suspect in ast_lint.at(where))):
        message = f"SOT leaves the graph here ({name}: {text}): {ast_lint.text(where)}"
        return Finding("graph-break", "note", message, "full-graph conversion may support this line: fix the errors first", where)
    message = f"the graph breaks here ({name}: {text}): {ast_lint.text(where)}"
    advice = ADVICE.get(kind, "draw the numbers outside of forward, and pass them to it as an input")
    return Finding(kind, "warning", message, advice, where)
