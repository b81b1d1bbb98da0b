"""What users install: the sdist builds, the wheel needs no compiler, and both run a server.

Everything starts from the files that git knows, in a directory of its own: what lies around in a developer's
checkout must not be what makes a distribution work.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.test_docs import follow_the_quick_start

ROOT = Path(__file__).parents[1]
BUILD_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
INSTALL_SECONDS = 900
PAGE = ROOT / "src" / "headrace" / "monitor" / "console" / "page"


def run(*command: str | Path, **options: object) -> str:
    """What a command prints. A failure shows all of it."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=INSTALL_SECONDS, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of a clean checkout."""
    place = tmp_path_factory.mktemp("checkout")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    dist = place / "dist"
    dist.mkdir()
    run(sys.executable, "-c", BUILD_SDIST, dist, cwd=place)
    (made,) = dist.glob("*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip makes of the source distribution, as it does for a user who installs that."""
    place = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, sdist, cwd=place)
    (made,) = place.glob("*.whl")
    return made


def names_in_sdist(sdist: Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def test_the_source_distribution_holds_every_source(sdist: Path) -> None:
    names = names_in_sdist(sdist)
    sources = [
        str(path.relative_to(ROOT))
        for ending in ("py", "pyi", "pyx", "pxd")
        for path in (ROOT / "src").rglob(f"*.{ending}")
    ]
    assert sum(name.endswith(".pyx") for name in names) > 30
    assert sorted(set(sources) - set(names)) == []


def test_the_source_distribution_holds_what_the_readme_links_to(sdist: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / "README.md").read_text())
    names = set(names_in_sdist(sdist))
    assert len(links) > 10
    assert sorted({link for link in links if link.rstrip("/") not in names}) == []


def test_the_source_distribution_holds_nothing_that_was_built(sdist: Path) -> None:
    built = re.compile(r"(^|/)(tests|build)/|\.(so|c|pyc)$")
    assert [name for name in names_in_sdist(sdist) if built.search(name)] == []


def test_a_package_without_its_compiled_sources_is_not_built(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    for source in unpacked.rglob("*.pyx"):
        source.unlink()
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=unpacked, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("headrace cannot be built: its compiled sources")


def run_a_server(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in a program, then the README's quick start, with nothing but what is in the environment."""
    binaries = environment / "bin"
    variables = {"PATH": str(binaries), "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
    assert run(binaries / "headrace", "--version", env=variables).startswith("headrace")
    printed = run(binaries / "python", ROOT / "examples" / "embedded_server.py", env=variables)
    assert "greet.anna: Hello from inside" in printed
    monkeypatch.setenv("PATH", str(binaries))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    place = tmp_path / "quick-start"
    place.mkdir()
    follow_the_quick_start(place, str(binaries / "python"))


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_an_empty_environment_runs_a_server(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    # Where another build is on the path, pip finds that it is there already.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if kind == "wheel":
        variables["PATH"] = str(environment / "bin")  # no compiler there
    package = request.getfixturevalue(kind)
    run(environment / "bin" / "python", "-m", "pip", "install", "-q", package, env=variables, cwd=tmp_path)
    run_a_server(environment, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
def test_the_wheel_holds_the_engine_and_no_sources_of_it(wheel: Path) -> None:
    assert "py3-none-any" not in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    page = {path.relative_to(ROOT / "src").as_posix() for path in PAGE.rglob("*.*")}
    assert page <= set(names)
    assert sum(name.endswith(".so") for name in names) == len(list((ROOT / "src").rglob("*.pyx")))
    assert [name for name in names if re.search(r"\.(pyx|pxd|c)$|(^|/)tests/", name)] == []


def test_wheels_are_made_for_every_python_that_is_announced() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    announced = re.findall(r"Python :: (3\.\d+)", "\n".join(project["project"]["classifiers"]))
    built = re.findall(r"cp(3)(\d+)-", project["tool"]["cibuildwheel"]["build"])
    assert [f"{major}.{minor}" for major, minor in built] == announced
    assert project["tool"]["cibuildwheel"]["linux"]["archs"] == ["x86_64", "aarch64"]
