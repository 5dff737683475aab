"""What is written about execution providers."""

from __future__ import annotations

from scripts.schemas.derive import Document, fields_of
from taso_py.providers import record
from taso_py.providers.listing import Offers
from taso_py.providers.suite import Conformance
from taso_py.report import eps


def of_providers() -> tuple[Document, ...]:
    return (
        Document(
            eps.SCHEMA,
            "superopt eps: the execution providers that can be used here, and why others cannot.",
            fields_of(Offers),
        ),
        Document(
            eps.CONFORMANCE_SCHEMA,
            "superopt eps --test: what an execution provider keeps of what superopt relies on.",
            fields_of(Conformance),
        ),
        Document(
            record.SCHEMA,
            "OUT.session.json beside a model that superopt optimize wrote for a provider: how a session of it is made.",
            fields_of(record.SessionRecord),
            record.SessionRecord,
        ),
    )
