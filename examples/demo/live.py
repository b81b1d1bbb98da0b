"""A look at the orders of this very second while everything runs: `headrace sql` over the table and what the
stream has had since.

It is a process of its own, and starts with the number of orders that were acknowledged: it has to find all
of those, none of them twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from examples.demo.orders import is_malformed
from examples.demo.processes import JAVA_OPTIONS, Failure
from examples.demo.reconcile import Check

QUERY = "SELECT count(*) AS orders, count(DISTINCT id) AS ids FROM orders"


class LiveQuery:
    def __init__(self, tables: Path, url: str, acknowledged: int) -> None:
        self.acknowledged = sum(not is_malformed(number) for number in range(acknowledged))
        self.found = 0
        self.told = False
        self._ids = 0
        command = ["sql", QUERY, "--tables", str(tables), "-s", url, "--format", "json"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=JAVA_OPTIONS | os.environ,
        )

    def is_over(self) -> bool:
        """Raises Failure if it did not work."""
        if self._process.poll() is None:
            return False
        if not self.found:
            printed, errors = self._process.communicate()
            if self._process.returncode:
                raise Failure(f"the live view cannot be queried: {errors.decode(errors='replace').strip()}")
            row = json.loads(printed)
            self.found, self._ids = row["orders"], row["ids"]
        return True

    def check(self) -> Check:
        """More than was asked for is no mistake: orders kept coming."""
        duplicate = self.found - self._ids
        lost = max(0, self.acknowledged - self._ids)
        return Check(
            "orders in the live view", self.acknowledged, self.acknowledged - lost, lost, duplicate, 0
        )

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate()
