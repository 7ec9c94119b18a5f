"""Checks that all relative links and all of the project's paths exist, on pages and in the comments of sources.
Run by ctest."""

import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
ROOMS = ("actors/", "docs/", "examples/", "kernels/", "messages/", "runtime/", "tests/")
NOT_OURS = ("build", "runs", ".git")
SOURCES = (".hpp", ".cpp", ".cu", ".cuh", ".h", ".py", ".sh", ".cmake", ".txt", ".lua")
PLANTED = ("tests/architecture", "tests/golden", "tests/fuzz/corpus")  # these contain names of other files
PAGE = re.compile(r"(?<![\w/.<>-])((?:[\w-]+/)*[\w-]+\.md)\b(?!#)")
PATH = re.compile(r"(?<![\w/.<>\"-])((?:actors|docs|examples|kernels|messages|runtime|tests)/[\w/-]+\.\w+)\b")


def anchors(text):
    """The names that GitHub gives to the headings of a page."""
    for heading in re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", text), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(root, page, text):
    for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue  # another site
        path, _, anchor = target.partition("#")
        there = page if not path else (page.parent / path)
        if not there.exists() or not there.resolve().is_relative_to(root.resolve()):
            yield f"{page.relative_to(root)}: the target of the link ({target}) does not exist"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
            yield f"{page.relative_to(root)}: the heading of the link ({target}) does not exist"


def missing_paths(root, page, text):
    """Checks words in backticks that begin like a path of the project; the suffix may be missing."""
    for word in CODE.findall(FENCE.sub("", text)):
        if word.startswith(ROOMS) and not re.search(r"[ <>*{]", word):
            path = root / word.split(":")[0]
            if not path.exists() and not list(path.parent.glob(path.name + ".*")):  # .hpp and .cpp
                yield f"{page.relative_to(root)}: `{word}` does not exist"


def comments_of(path, text):
    """The comments of a source, on their original lines."""
    if path.suffix in (".txt", ".cmake"):  # their paths begin at their own folder
        return ""
    if path.suffix in (".hpp", ".cpp", ".cu", ".cuh", ".h"):
        return "\n".join(line[line.index("//"):] if "//" in line else "" for line in text.splitlines())
    return text


def missing_in_source(root, path, pages):
    for number, line in enumerate(comments_of(path, path.read_text()).splitlines(), 1):
        where = f"{path.relative_to(root)}:{number}"
        for word in PAGE.findall(line):
            if word not in pages and not any(word.endswith("/" + page) for page in pages):
                yield f"{where}: the page {word} does not exist"
        for word in PATH.findall(line):
            there = root / word
            if not word.endswith(".md") and not there.exists():
                yield f"{where}: {word} does not exist"


def complaints(root):
    pages = [p for p in sorted(root.rglob("*.md"))
             if not set(p.relative_to(root).parts) & set(NOT_OURS)]
    if not pages:
        yield f"{root}: no pages found, so nothing was checked"
    for page in pages:
        text = page.read_text()
        yield from broken_links(root, page, text)
        yield from missing_paths(root, page, text)
    known = {end for p in pages for end in (p.name, p.relative_to(root).as_posix())}
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.suffix in SOURCES and path.is_file() and not set(inside.parts) & set(NOT_OURS) \
                and not inside.as_posix().startswith(PLANTED):
            yield from missing_in_source(root, path, known)


def self_test(root):
    """True if the check finds exactly its own planted mistakes."""
    (root / "docs").mkdir()
    (root / "docs" / "a.md").write_text(
        "# The head, *first*\n[good](b.md) [gone](c.md) [here](#the-head-first) [no](b.md#x)\n"
        "[out](../../etc) `docs/b.md` `docs/gone.md` `[shape](x)` [web](https://example.org)\n"
        "```\n[not a link](d.md)\n```\n")
    (root / "docs" / "b.md").write_text("# B\n[up](../docs/a.md#the-head-first)\n")
    (root / "a.cpp").write_text('// docs/b.md, docs/gone.md and tests/gone.cpp\nint x; // gone.md\n"c.md"\n')
    return len(list(complaints(root))) == 7


def main(root):
    import tempfile
    with tempfile.TemporaryDirectory() as tmp:
        if not self_test(pathlib.Path(tmp)):
            print("links_test.py does not find its own planted mistakes")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "all links and paths exist")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
