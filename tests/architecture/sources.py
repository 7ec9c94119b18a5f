"""Reads the project's own sources, for checks that search them for forbidden code."""

ROOMS = ["kernels", "runtime", "messages", "actors"]


def sources(root):
    """Yields (path relative to root, lines without comments) for each source; exits if there are none."""
    found = [path for room in ROOMS for path in sorted((root / room).rglob("*.[ch]pp"))]
    if not found:
        raise SystemExit(f"{root}: no sources found, so nothing was checked")
    for path in found:
        yield path.relative_to(root), [line.split("//")[0] for line in path.read_text().splitlines()]
