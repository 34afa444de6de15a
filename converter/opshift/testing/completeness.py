"""A package of adapters has one verdict for every boundary and direction of its domains."""

from __future__ import annotations

from opshift import registry, schemas


def assert_complete(package: str) -> None:
    """Every operator of the package's domains can cross every boundary both ways, or is refused.

    That no crossing has two verdicts is seen to when adapters are loaded.
    """
    adapters = registry.default()
    own = [a for a in adapters.adapters() if f"{a.source}.".startswith(f"{package}.")]
    if not own:
        raise AssertionError(f"no adapters of {package!r} are installed")
    missing = []
    for domain in sorted({adapter.domain for adapter in own}):
        missing += adapters.missing(domain, 1, schemas.latest(domain) or 1)
    if missing:
        shown = ", ".join(f"{op} {start}->{to}" for _, op, start, to in missing[:10])
        raise AssertionError(f"{len(missing)} crossings have no verdict, first {shown}")
