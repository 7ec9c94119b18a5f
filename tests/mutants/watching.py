"""Faults in the hub of a run and its commands, planted one at a time: (description, file, exact text, replacement).

The format is that of mutants.py. The tests of the same room must find each fault: TESTS.
"""

COMMANDS = "actors/supervisor/commander.cpp"
DECISION = "actors/supervisor/transaction.cpp"
HUB = "runtime/watch/hub.cpp"
RING = "runtime/telemetry/record_ring.cpp"
ROOM = "runtime/http/room.cpp"
TOKEN = "runtime/watch/viewer_token.cpp"

# Program and test file that must find faults in each source.
TESTS = {
    COMMANDS: ("test_scenario", "commands_test"),
    DECISION: ("test_scenario", "commands_test"),
    HUB: ("test_runtime_watch", "hub_test"),
    RING: ("test_runtime_telemetry", "record_ring_test"),
    ROOM: ("test_runtime_http", "server_test"),
    TOKEN: ("test_runtime_watch", "page_routes_test"),
}

MUTANTS = [
    ("records that a viewer missed are not counted", RING,
     "    out.dropped += one->number - at;", "    out.dropped += 0 * (one->number - at);"),
    ("samples push out steps and events", RING,
     "  add(samples_, {.kind = kind, .key = &key, .bytes = bytes}, std::move(text));",
     "  add(facts_, {.kind = kind, .key = &key, .bytes = bytes}, std::move(text));"),
    ("the read token allows commands", HUB,
     "    if (control ? commands\n", "    if (control ? commands || gives_viewer_token(x, how.read_token)\n"),
    ("the last of several tokens in a cookie decides", TOKEN,
     "      out = http::is_token(one.substr(equals + 1), token) || out;",
     "      out = http::is_token(one.substr(equals + 1), token);"),
    ("a page of any origin has access", ROOM,
     "  return scheme == std::string::npos || std::string_view(origin).substr(scheme + 3) != host;",
     "  return scheme == std::string::npos;"),
    ("a successor forgets the learning rate of a command", COMMANDS,
     "      recipe_.rate_changes.push_back({x.step, x.factor});\n    else",
     "      static_cast<void>(x.factor);\n    else"),
    ("a command is not written to the ledger", COMMANDS,
     "  run_.pen()->command(record);\n", ""),
    ("a decision ignores the learning rate of a command", DECISION,
     "runtime::decide(commands_.recipe(), losses_,", "runtime::decide(run_.job->job.training, losses_,"),
]
