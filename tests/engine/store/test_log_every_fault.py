"""Every call of the store fails, at every moment of a day: nothing acknowledged is lost."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace.engine
from tests.engine.store.fault_library import compile_library
from tests.sanitizers import ARE_AT_WORK, PATIENCE, behind_them

SOME = 13  # one case of this many runs in `make test`, all of them with `make test-long`

# Calls of the engine that no file can come to harm by. What is neither here nor in faults.c has to be added
# to one of them: this list is why a new call of the store is not forgotten.
HARMLESS = """
    __cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __errno_location
    __stack_chk_fail __memcpy_chk __snprintf_chk __vsnprintf_chk __sprintf_chk abort memchr memcmp
    memcpy memmem memmove memset qsort snprintf sprintf strlen strcmp strrchr vsnprintf free
    __assert_fail _exit alarm sigaction
    clock_gettime nanosleep getrandom prctl sigfillset epoll_create1 epoll_ctl epoll_wait eventfd poll
    ppoll recv send readv shutdown writev timerfd_create timerfd_settime pthread_cond_broadcast
    pthread_cond_destroy pthread_cond_init pthread_cond_signal pthread_cond_timedwait pthread_cond_wait
    pthread_condattr_destroy pthread_condattr_init pthread_condattr_setclock pthread_create pthread_join
    pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_setname_np
    pthread_sigmask
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("faults"))


def run_days(library: Path, directory: Path, what: str, share: int, timeout: int) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[3])]),
        "LD_PRELOAD": behind_them(library),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.store.every_fault", str(directory / "log"), str(share), what],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout * PATIENCE,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_some_calls_on_files_fail(library: Path, quick_path: Path) -> None:
    run_days(library, quick_path, "files", SOME, 290)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_call_on_files_fails(library: Path, quick_path: Path) -> None:
    run_days(library, quick_path, "files", 1, 3590)


@pytest.mark.skipif(ARE_AT_WORK, reason="the sanitizers have an allocator of their own, which does not fail")
@pytest.mark.timeout(300)
def test_there_is_no_memory_at_some_moments(library: Path, quick_path: Path) -> None:
    run_days(library, quick_path, "memory", SOME, 290)


@pytest.mark.skipif(ARE_AT_WORK, reason="the sanitizers have an allocator of their own, which does not fail")
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_there_is_no_memory_at_any_moment(library: Path, quick_path: Path) -> None:
    run_days(library, quick_path, "memory", 1, 3590)


def symbols(paths: list[Path], *options: str) -> dict[Path, set[str]]:
    """Names of functions in each file, without the versions that the C library gives them."""
    command = ["nm", "--print-file-name", *options, *map(str, paths)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[Path, set[str]] = {path: set() for path in paths}
    for line in listed.stdout.splitlines():
        path, _, symbol = line.partition(":")
        found[Path(path)].add(symbol.split()[-1].partition("@")[0])
    return found


@pytest.mark.skipif(ARE_AT_WORK, reason="their build calls the sanitizers as well")
def test_no_call_of_the_engine_is_forgotten(library: Path) -> None:
    assert importlib.import_module("headrace.engine.store.log")
    intercepted = symbols([library], "-D", "--defined-only")[library]
    for folder in headrace.engine.__path__:
        modules = list(Path(folder).rglob("*.so"))
        assert len(modules) > 20
        if "__gcov_exit" in symbols(modules[:1])[modules[0]]:
            pytest.skip("the debug build also has the calls of gcov, which writes counts when a process ends")
        for module, names in symbols(modules, "-D", "--undefined-only").items():
            assert names, module
            called = {name for name in names if not name.startswith(("Py", "_Py", "__pyx"))}
            unknown = called - intercepted - set(HARMLESS.split())
            assert not unknown, f"{module.name}: add {unknown} to faults.c, or to HARMLESS"
