"""Documentation points at what is there: every relative link and every path of ours, on every page.
Run by ctest."""

import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
ROOMS = ("actors/", "docs/", "examples/", "kernels/", "messages/", "runtime/", "tests/")
NOT_OURS = ("build", "runs", ".git")


def anchors(text):
    """The names that GitHub gives to the headings of a page."""
    for heading in re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", text), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(root, page, text):
    for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue  # another site: not ours to check
        path, _, anchor = target.partition("#")
        there = page if not path else (page.parent / path)
        if not there.exists() or not there.resolve().is_relative_to(root.resolve()):
            yield f"{page.relative_to(root)}: the link ({target}) leads nowhere"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
            yield f"{page.relative_to(root)}: ({target}): there is no such heading"


def missing_paths(root, page, text):
    """What stands in backticks and begins like a path of ours is one, or one without its suffix."""
    for word in CODE.findall(FENCE.sub("", text)):
        if word.startswith(ROOMS) and not re.search(r"[ <>*{]", word):
            path = root / word.split(":")[0]
            if not path.exists() and not list(path.parent.glob(path.name + ".*")):  # .hpp and .cpp
                yield f"{page.relative_to(root)}: `{word}` does not exist"


def complaints(root):
    pages = [p for p in sorted(root.rglob("*.md"))
             if not set(p.relative_to(root).parts) & set(NOT_OURS)]
    if not pages:
        yield f"{root}: no pages found, so nothing was checked"
    for page in pages:
        text = page.read_text()
        yield from broken_links(root, page, text)
        yield from missing_paths(root, page, text)


def self_test(root):
    """The test that cannot fail is refused: planted mistakes must be found, and nothing else."""
    (root / "docs").mkdir()
    (root / "docs" / "a.md").write_text(
        "# The head, *first*\n[good](b.md) [gone](c.md) [here](#the-head-first) [no](b.md#x)\n"
        "[out](../../etc) `docs/b.md` `docs/gone.md` `[shape](x)` [web](https://example.org)\n"
        "```\n[not a link](d.md)\n```\n")
    (root / "docs" / "b.md").write_text("# B\n[up](../docs/a.md#the-head-first)\n")
    return len(list(complaints(root))) == 4


def main(root):
    import tempfile
    with tempfile.TemporaryDirectory() as tmp:
        if not self_test(pathlib.Path(tmp)):
            print("links_test.py does not find the mistakes that it plants itself")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "every link leads somewhere")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
