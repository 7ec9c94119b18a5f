"""Checks that messages are values and that actors send them in one place. Run by ctest.

messages/ contains no pointers into a process and no untyped handles. In actors/ only
actors/support/message_path.hpp sends.
"""

import pathlib
import re
import sys
import tempfile

SHARED = re.compile(r"\b(std::(shared_ptr|unique_ptr|function|weak_ptr)|caf::(strong_actor_ptr|actor))\b")
SENDS = re.compile(r"\b(self_?->(?:send|delayed_send|request)|caf::anon_send)\s*\(")
PATH = "actors/support/message_path.hpp"


def sources(root, room):
    return sorted((root / room).rglob("*.[ch]pp"))


def complaints(root):
    seen = 0
    for path in sources(root, "messages"):
        seen += 1
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := SHARED.search(line.split("//")[0]):
                yield f"{path.relative_to(root)}:{number}: {found[0]} is not a value and cannot be sent"
    for path in sources(root, "actors"):
        here, text = path.relative_to(root).as_posix(), path.read_text()
        for found in SENDS.finditer(text):
            # CAF's own exit message is allowed.
            statement = text[found.end():text.find(";", found.end())]
            if here != PATH and "caf::exit_msg" not in statement:
                number = text.count("\n", 0, found.start()) + 1
                yield f"{here}:{number}: {found[1]} bypasses {PATH}"
    if seen == 0:
        yield f"{root}: no messages found, so nothing was checked"


def finds_what_it_plants():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        planted = {"messages/a.hpp": "struct x { std::shared_ptr<int> y; };  // caf::actor\n",
                   "messages/b.hpp": "caf::actor who; caf::typed_actor<int> other;\n",
                   "actors/a.cpp": "self_->send(to, x);\ncaf::anon_send(\n    to, caf::exit_msg{});\n",
                   PATH: "self->send(to, x);\n"}
        for name, text in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return len(list(complaints(root))) == 3


def main(root):
    if not finds_what_it_plants():
        print("messages_test.py does not find its own planted faults")
        return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "messages are values, and one file sends them")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
