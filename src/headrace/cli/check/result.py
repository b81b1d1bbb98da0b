"""The result of a check, and how it is printed: a line for Nagios, JSON, Prometheus, or tables."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from headrace.cli.output import one_line
from headrace.cli.tables import Column, table_lines

OK, WARNING, CRITICAL, UNKNOWN = "OK", "WARNING", "CRITICAL", "UNKNOWN"
EXIT_CODES = {OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3}
MESSAGE = Column("Message", flexible=True, wrap=True)
FORMATS = ("nagios", "json", "prometheus", "text")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True)
class Figure:
    """A measured value with its thresholds; 0 means that there is none."""

    name: str
    value: float
    help: str
    warn: float = 0
    crit: float = 0
    unit: str = ""

    def nagios(self) -> str:
        digits = 4 if self.unit == "s" else 0
        text = f"{self.name}={self.value:.{digits}f}{self.unit}"
        if self.warn or self.crit:
            text += f";{self.warn:.{digits}f}" if self.warn else ";"
        return f"{text};{self.crit:.{digits}f}" if self.crit else text


@dataclass
class Result:
    """`suite` is the kind of check, `name` what was checked."""

    suite: str
    name: str
    oks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    criticals: list[str] = field(default_factory=list)
    unknowns: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    def ok(self, text: str) -> None:
        self.oks.append(one_line(text))

    def warning(self, text: str) -> None:
        self.warnings.append(one_line(text))

    def critical(self, text: str) -> None:
        self.criticals.append(one_line(text))

    def unknown(self, text: str) -> None:
        self.unknowns.append(one_line(text))

    def measure(self, name: str, value: float, meaning: str, **thresholds: Any) -> None:
        self.figures.append(Figure(name, value, meaning, **thresholds))

    def compare(
        self, value: float, warn: float, crit: float, text: str, *, none: float = 0, invertible: bool = False
    ) -> None:
        """At or above a threshold is bad; inverted (`crit` < `warn`) at or below. `none`: no threshold."""
        inverted = invertible and none < crit < warn

        def reached(threshold: float) -> bool:
            return threshold > none and (value <= threshold if inverted else value >= threshold)

        if reached(crit):
            self.critical(text)
        elif reached(warn):
            self.warning(text)
        else:
            self.ok(text)

    @property
    def status(self) -> str:
        if self.criticals:
            return CRITICAL
        if self.unknowns:
            return UNKNOWN
        return WARNING if self.warnings else OK

    # -- rendering ----------------------------------------------------------------------------------------

    def render(self, form: str, namespace: str = "", width: int | None = None) -> str:
        """`width` is that of the terminal, if there is one; only `text` has tables that must fit."""
        if form == "prometheus":
            return self._prometheus(namespace)
        return self._text(width) if form == "text" else {"nagios": self._nagios, "json": self._json}[form]()

    def exit_code(self, form: str) -> int:
        """Whoever collects metrics looks at them, not at the exit code."""
        return 0 if form == "prometheus" else EXIT_CODES[self.status]

    def _nagios(self) -> str:
        """One line; what follows a bar are figures."""
        parts = [self.name]
        parts += [f"Crit:{text}" for text in self.criticals]
        parts += [f"Unknown:{text}" for text in self.unknowns]
        parts += [f"Warn:{text}" for text in self.warnings]
        parts += [f"OK:{text}" for text in self.oks]
        line = f"{self.status} {' '.join(parts)}".replace("|", "/")
        figures = " ".join(figure.nagios() for figure in self.figures)
        return f"{line} | {figures}" if figures else line

    def _json(self) -> str:
        texts = {
            "warning": self.warnings,
            "critical": self.criticals,
            "ok": self.oks,
            "unknown": self.unknowns,
        }
        document = {
            "status": self.status,
            "check_suite": self.suite,
            "check_name": self.name,
            **{name: found for name, found in texts.items() if found},
            "perf_data": [
                {
                    "name": figure.name,
                    "value": figure.value,
                    "warning": figure.warn,
                    "critical": figure.crit,
                    **({"unit": figure.unit} if figure.unit else {}),
                }
                for figure in self.figures
            ],
        }
        return json.dumps(document, indent=2)

    def _text(self, width: int | None) -> str:
        rows = [("OK", text) for text in self.oks]
        rows += [("Warning", text) for text in self.warnings]
        rows += [("Unknown", text) for text in self.unknowns]
        rows += [("Critical", text) for text in self.criticals]
        lines = [f"{self.name}: {self.status}"]
        if rows:
            lines += ["", *table_lines([Column("Status"), MESSAGE], rows, width)]
        if self.figures:
            columns = [
                Column("Metric"),
                *(Column(title, number=True) for title in ("Value", "Critical", "Warning")),
                Column("Description", flexible=True, wrap=True),
            ]
            figures = [
                (
                    figure.name,
                    f"{figure.value:.{4 if figure.unit == 's' else 0}f}{figure.unit}",
                    f"{figure.crit:g}" if figure.crit else "",
                    f"{figure.warn:g}" if figure.warn else "",
                    figure.help,
                )
                for figure in self.figures
            ]
            lines += ["", *table_lines(columns, figures, width)]
        return "\n".join(lines)

    def _prometheus(self, namespace: str) -> str:
        lines = []
        label = f'item="{_escape(self.name)}"'
        figures = [(figure.name, figure.help, label, figure.value) for figure in self.figures]
        status = (
            "status_code",
            f"Nagios compatible status code for {self.suite}",
            f'{label},status="{self.status}"',
            float(EXIT_CODES[self.status]),
        )
        for name, text, labels, value in sorted([*figures, status]):
            full = _NOT_IN_NAMES.sub(
                "_", f"{namespace}_{self.suite}_{name}" if namespace else f"{self.suite}_{name}"
            )
            lines += [f"# HELP {full} {text}", f"# TYPE {full} gauge", f"{full}{{{labels}}} {value:.17g}"]
        return "\n".join(lines)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
