"""Checks that messages are values and that actors send them in one place. Run by ctest.

messages/ contains no untyped handles and no serializer or equality by hand (MESSAGE-2). Members that are pointers or
functions need no check: inspect() does not compile with them. The product's files that name the example of
docs/guides/new_message.md are those of its list. In actors/ only actors/support/message_path.* sends. A source that
sends or answers includes messages/core/type_ids.hpp: without it, CAF stores a message in a class of the same name with
another layout (messages/core/stored_message.hpp).
"""

import pathlib
import re
import sys
import tempfile

UNTYPED = re.compile(r"\bcaf::(strong_actor_ptr|actor)\b")
BY_HAND = re.compile(r"\binspect\(|\boperator==")
SERIALIZER = "messages/core/inspect.hpp"
GUIDE, EXAMPLE = "docs/guides/new_message.md", re.compile(r"\brecords_wait\b")
SENDS = re.compile(r"((?:\bself_?\)?|\))->(?:send|delayed_send|request)|\bcaf::(?:delayed_)?anon_send|->enqueue"
                   r"|\bschedule_message)\s*\(")
PATH = ("actors/support/message_path.hpp", "actors/support/message_path.cpp")
TYPES = "messages/core/type_ids.hpp"
ACTORS = re.compile(r"#include <caf/(send|event_based_actor|typed_event_based_actor|stateful_actor|scoped_actor)\.hpp>")


def sources(root, room):
    return sorted((root / room).rglob("*.[ch]pp"))


def complaints(root):
    seen = 0
    for path in sources(root, "messages"):
        seen += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            here, code = path.relative_to(root).as_posix(), line.split("//")[0]
            if found := UNTYPED.search(code):
                yield f"{here}:{number}: {found[0]} has no type; use a handle of messages/protocol/handles.hpp"
            if here != SERIALIZER and (found := BY_HAND.search(code)):
                yield f"{here}:{number}: {found[0]} repeats what {SERIALIZER} makes from the members"
    for path in sources(root, "actors"):
        here, text = path.relative_to(root).as_posix(), path.read_text()
        for found in SENDS.finditer(text):
            # CAF's own messages are allowed.
            statement = text[found.end():text.find(";", found.end())]
            if here not in PATH and not re.search("caf::(exit|down)_msg", statement):
                number = text.count("\n", 0, found.start()) + 1
                yield f"{here}:{number}: {found[1]} bypasses {PATH[0]}"
    for path in [x for room in ("actors", "tests", "examples") for x in sources(root, room) if x.suffix == ".cpp"]:
        texts = included(root, path)
        takes = any(x.startswith("messages/") and not x.startswith("messages/core/") for x in texts)
        if takes and TYPES not in texts and any(ACTORS.search(x) for x in texts.values()):
            yield f"{path.relative_to(root)}: uses messages and CAF's actors without {TYPES}"
    listed = set(re.findall(r"^\d\. `([^`]+)`", (root / GUIDE).read_text(), re.M))
    taken = {x.relative_to(root).as_posix() for room in ("messages", "actors") for x in sources(root, room)
             if EXAMPLE.search(x.read_text())}
    for name in sorted(listed ^ taken):
        how = "in its list but does not name" if name in listed else "not in its list but names"
        yield f"{GUIDE}: {name} is {how} its example"
    if seen == 0:
        yield f"{root}: no messages found, so nothing was checked"


def included(root, path):
    """Name -> text of a source and of all headers of the project that it includes."""
    out, left = {}, [path.relative_to(root).as_posix()]
    while left:
        name = left.pop()
        if name not in out and (root / name).is_file():
            out[name] = (root / name).read_text()
            left += re.findall(r'^#include "([^"]+)"', out[name], re.M)
    return out


def finds_what_it_plants():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        planted = {"messages/a.hpp": "struct x { bool operator==(const x&) const; };  // caf::actor\n",
                   "messages/b.hpp": "caf::actor who; caf::typed_actor<int> other;\n",
                   "actors/a.cpp": "self_->send(to, x);\ncaf::anon_send(\n    to, caf::exit_msg{});\n"
                                   "(*self_)->send(to, x);\nto->enqueue(x);\n",
                   "actors/b.cpp": '#include "messages/a.hpp"\n#include <caf/send.hpp>\n',
                   PATH[0]: "self->send(to, x);\n",
                   GUIDE: "1. `messages/c.hpp`: the struct\n"}
        for name, text in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return len(list(complaints(root))) == 7


def main(root):
    if not finds_what_it_plants():
        print("messages_test.py does not find its own planted faults")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "messages are values, and one file sends them")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
