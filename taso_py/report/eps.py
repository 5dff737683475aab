"""What `superopt eps` tells, as text and as JSON."""

from __future__ import annotations

import json

from rich.console import Group, RenderableType
from rich.text import Text

from taso_py.providers.listing import Environment, Offers, Provider
from taso_py.providers.suite import Conformance
from taso_py.report.table import TextTable
from taso_py.report.terminal import render, table
from taso_py.result import plain

SCHEMA = "superopt.eps/1"
CONFORMANCE_SCHEMA = "superopt.conformance/1"


def offers_json(offers: Offers) -> str:
    """One JSON object."""
    return json.dumps({"schema": SCHEMA, **plain(offers)}, indent=2)


def offers_text(offers: Offers) -> str:
    """Environments, what each offers, and the lines that would help."""
    rows = tuple(
        (
            one.ep,
            "yes" if one.usable else "no",
            one.version or "",
            ", ".join(dict.fromkeys(f"{device.vendor} {device.kind}".strip() for device in one.devices)),
            _place(one, offers),
            one.why or "",
        )
        for one in offers.providers
    )
    header = ("--ep", "usable", "version", "devices", "environment", "why not")
    parts: list[RenderableType] = [table(TextTable("Execution providers", header, rows))]
    parts += [Text(_sentence(one)) for one in offers.environments]
    lines = [*(one.advice for one in offers.environments), *(one.advice for one in offers.providers)]
    if any(lines):
        parts.append(Text("what would help:"))
        parts += [Text(f"  {line}") for line in dict.fromkeys(lines) if line]
    return render(Group(*parts))


def _place(provider: Provider, offers: Offers) -> str:
    own = {one.python for one in offers.environments if one.own}
    where = "" if provider.python is None else "superopt's own" if provider.python in own else provider.python
    return f"{where}, {provider.library}" if provider.library is not None and where else where


def _sentence(one: Environment) -> str:
    name = "superopt's own environment" if one.own else f"--ep-python {one.python}"
    if one.why is not None:
        return f"{name}: not usable: {one.why}"
    return f"{name}: Python {one.version}, {one.distribution} {one.ort_version}"


def conformance_json(found: Conformance) -> str:
    """One JSON object."""
    return json.dumps({"schema": CONFORMANCE_SCHEMA, **plain(found)}, indent=2)


def conformance_text(found: Conformance) -> str:
    """One line for each check, and the verdict."""
    rows = tuple((one.name, one.outcome, one.detail) for one in found.checks)
    where = "superopt's own environment" if found.python is None else found.python
    title = f"{found.name}, ONNX Runtime {found.ort_version or 'unknown'}, {where}"
    options = ", ".join(f"{name}={text}" for name, text in found.options.items()) or "none"
    verdict = "passed" if found.passed else "failed"
    words = "computes in float32" if found.lossless else "does not compute in float32: optimize refuses it"
    lines = (f"provider options: {options}; threads: {found.threads}", f"{verdict}; {found.ep} {words}")
    return render(Group(table(TextTable(title, ("check", "outcome", "found"), rows)), *map(Text, lines)))
