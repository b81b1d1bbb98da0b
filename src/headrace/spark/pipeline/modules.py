"""Python steps on other machines: their modules are sent along, and their errors get the line of the step.

A function of a step runs on the driver, but what it gives to Spark (a UDF, `mapInPandas`) runs in Python
processes elsewhere, which import its module by name. So everything that `import` finds next to the pipeline's
file goes into an archive that Spark sends to them. What is installed has to be installed there, too.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import re
import shutil
import site
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.failure import reason_of
from headrace.spark.pipeline.specification import Pipeline, StepSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')
_MISSING = re.compile(r"No module named '([\w.]+)'")
LONGEST_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of all entries: the same modules are the same archive."""


def send_modules(spark: SparkSession, pipeline: Pipeline) -> None:
    """Send them to the Python processes of this session, before a function of the steps is called."""
    files = dict(sorted(_modules(pipeline)))
    if not files:
        return
    directory = Path(tempfile.mkdtemp(prefix="headrace-modules-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # executors may ask for it at any time
    path = directory / "modules.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in files.items():
            archive.writestr(zipfile.ZipInfo(name, LONGEST_AGO), file.read_bytes())
    # Under a unique name: Spark refuses another file under a name that it already has.
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    spark.addArtifacts(str(path.rename(directory / f"headrace-modules-{digest}.zip")), pyfile=True)


def _modules(pipeline: Pipeline) -> Iterator[tuple[str, Path]]:
    """The files that the steps' modules are, or can import: names in the archive, and where they are."""
    directories = {pipeline.directory} if any(step.python for step in pipeline.steps) else set()
    for step in pipeline.steps:
        if step.python and (elsewhere := _directory_of(step.module, pipeline.directory)):
            directories.add(elsewhere)
    for directory in directories:
        for path in directory.iterdir():
            if path.suffix == ".py":
                yield path.name, path
            elif (path / "__init__.py").is_file():
                for file in path.rglob("*"):
                    if file.is_file() and "__pycache__" not in file.parts:
                        yield str(file.relative_to(directory)), file


def _directory_of(module: str, beside: Path) -> Path | None:
    """Where the top of a module's name was found if it is neither installed nor next to the file."""
    name = module.partition(".")[0]
    top = importlib.util.find_spec(name)
    if top is None or not top.origin or (beside / name).exists() or (beside / f"{name}.py").exists():
        return None
    path = Path(top.origin).resolve()
    installed = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {*site.getsitepackages(), site.getusersitepackages(), sys.prefix}
    if any(path.is_relative_to(Path(place).resolve()) for place in installed):
        return None
    return path.parents[1] if top.submodule_search_locations else path.parent


def fail_in_step(error: BaseException, pipeline: Pipeline) -> None:
    """Raises ConfigError with step and line if a failure of a query comes from a Python step."""
    text = str(error)
    for path, line in reversed(_FRAME.findall(text)):
        for step in pipeline.steps:
            if step.python and _is_file_of(path, step.module):
                where = f"{Path(path).name} line {line}"
                step.node.fail(f"the step {step.name} failed in {where}: {reason_of(error)}")
    missing = {name.partition(".")[0] for name in _MISSING.findall(text)}
    for step in pipeline.steps:
        if step.python and step.module.partition(".")[0] in missing:
            step.node.fail(
                f"the step {step.name} failed: the workers have no module {step.module}",
                "put it next to this file, or install it on the workers",
            )


def _is_file_of(path: str, module: str) -> bool:
    base = "/" + module.replace(".", "/")
    return path.endswith((f"{base}.py", f"{base}/__init__.py"))


def line_in_step(error: BaseException, step: StepSpec) -> str:
    """Where in the step's module this was raised: ` (line 3 of shop.py)`."""
    frame, found = error.__traceback__, ""
    while frame is not None:
        path = frame.tb_frame.f_code.co_filename
        if _is_file_of(path, step.module):
            found = f" (line {frame.tb_lineno} of {Path(path).name})"
        frame = frame.tb_next
    return found
