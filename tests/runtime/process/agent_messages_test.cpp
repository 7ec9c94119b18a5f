#include "runtime/process/agent_messages.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::vector<agent_request> requests{
    start_process{.request = 7,
                  .name = "node-0",
                  .command = {"/bin/troupe", "node", "\xc3\xa4 \"quoted\"\n"},
                  .environment = {"A=", "B=x=y"},
                  .output = "/run/logs/node-0.log"},
    start_process{.request = 8,
                  .name = "node-1",
                  .which = 4,
                  .command = {"/bin/troupe", "node", "--run", "/not utf-8 \xff"},
                  .environment = {"TMPDIR=/\xff"},
                  .output = "/\xff/logs/node-1.log"},
    signal_process{.request = 8, .name = "node-0", .which = 3, .signal = 9},
    list_processes{9},
    adopt_process{
        .request = 11, .name = "node-0", .which = 3, .process = {.pid = 12, .start_time = 3456}},
    succeed_owner{.request = 12,
                  .command = {"/bin/troupe", "go-on"},
                  .environment = {"A=b"},
                  .output = "/run/logs/supervisor.log",
                  .process = {.pid = 13, .start_time = 3457},
                  .silence = 2.5},
    owner_still_there{13},
    end_agent{10}};

const process_id somebody{.pid = 12, .start_time = 3456};
const std::vector<agent_answer> answers{
    process_started{.request = 7, .name = "node-0", .which = 1, .process = somebody},
    process_signalled{8},
    processes_listed{
        .request = 9,
        .processes = {{"node-0", 1, somebody, std::nullopt},
                      {"node-1", 2, somebody, process_end{.exit_code = 3}},
                      {"node-2", 1, somebody, process_end{.exit_code = {}, .unseen = true}}}},
    succession_agreed{11},
    request_refused{.request = 7, .why = "it runs already"},
    process_died{.name = "node-0",
                 .which = 1,
                 .process = somebody,
                 .how = {.exit_code = {}, .signal = 9, .core = false, .out_of_memory = true}},
    agent_ended{"it was told to"}};

void refused(const std::string& text, const std::string& why) {
  INFO(text);
  CHECK_THROWS_MATCHES(read_request(text), input_error, MessageMatches(ContainsSubstring(why)));
}

}  // namespace

TEST_CASE("every agent message survives a round trip through JSON", "[process]") {
  for (const auto& x : requests)
    CHECK(read_request(text_of(x)) == x);
  for (const auto& x : answers)
    CHECK(read_answer(text_of(x)) == x);
}

TEST_CASE("an invalid message is refused with the reason", "[process]") {
  refused("", "not a JSON object");
  refused("garbage", "not a JSON object");
  refused("[1]", "not a JSON object");
  refused(std::string(500, '['), "nested");
  refused("{}", "'version' is missing");
  refused(R"({"version": 3, "type": "list", "request": 1})", "version 3");
  refused(R"({"version": "1", "type": "list", "request": 1})", "'version' has to be");
  refused(R"({"version": 2, "request": 1})", "'type' is missing");
  refused(R"({"version": 2, "type": "dance", "request": 1})", "'dance'");
  refused(R"({"version": 2, "type": "list"})", "'request' is missing");
  refused(R"({"version": 2, "type": "list", "request": -1})", "'request'");
  refused(R"({"version": 2, "type": "list", "request": 1e300})", "'request'");
  refused(R"({"version": 2, "type": "list", "request": 18446744073709551615})", "'request'");
  const std::string signal = R"({"version": 2, "type": "signal", "request": 1, )";
  refused(signal + R"("name": "../x", "incarnation": 1, "signal": 9})", "'name'");
  refused(signal + R"("name": "x", "incarnation": 0, "signal": 9})", "'incarnation'");
  refused(signal + R"("name": "x", "incarnation": 1, "signal": 65})", "'signal'");
  const std::string start
      = R"({"version": 2, "type": "start", "request": 1, "name": "x", "incarnation": 1, )";
  refused(start + R"("command": [], "environment": [], "output": ""})", "no program");
  refused(start + R"("command": [1], "environment": [], "output": ""})", "'command'");
  refused(start + R"("command": "x", "environment": [], "output": ""})", "'command'");
  refused(start + R"("command": ["x"], "environment": ["=x"], "output": ""})", "NAME=VALUE");
  refused(start + R"("command": ["x\u0000y"], "environment": [], "output": ""})", "zero byte");
  const std::string succeed = R"({"version": 2, "type": "succeed", "request": 1, "command": ["x"],)"
                              R"( "environment": [], "output": "", "pid": 1, "start_time": 2)";
  refused(succeed + "}", "'silence' is missing");
  refused(succeed + R"(, "silence": 0})", "'silence' has to be");
  refused(succeed + R"(, "silence": 1e300})", "'silence' has to be");
  refused(succeed + R"(, "silence": "1"})", "'silence' has to be");
  refused(R"({"version": 2, "type": "adopt", "request": 1, "name": "x", "incarnation": 1})",
          "'pid'");
  // The error does not repeat the whole text that was sent.
  const auto long_type = R"({"version": 2, "type": ")" + std::string(100'000, 'x') + "\"}";
  try {
    read_request(long_type);
    FAIL("it was read");
  } catch (const input_error& failure) {
    CHECK(std::string(failure.what()).size() < 300);
  }
  refused(start + R"("command": [{"bytes": "xy"}], "environment": [], "output": ""})", "'command'");
  refused(start + R"("command": [{"bytes": "7"}], "environment": [], "output": ""})", "'command'");
  refused(start + R"("command": [{"bytes": "78"}], "environment": [], "output": {}})", "'output'");
  refused(start + R"("command": [{"bytes": "7800"}], "environment": [], "output": ""})",
          "zero byte");
}

TEST_CASE("every truncated or altered text is either read or refused", "[process]") {
  for (const auto& x : requests) {
    const auto text = text_of(x);
    for (std::size_t i = 0; i < text.size(); ++i) {
      CHECK_THROWS_AS(read_request(text.substr(0, i)), input_error);
      for (const char byte : {'\0', '"', '{', '9', '\xff'}) {
        auto changed = text;
        changed[i] = byte;
        try {
          read_request(changed);
        } catch (const input_error&) {
        }
      }
    }
  }
}

TEST_CASE("process names are valid file names", "[process]") {
  for (const char* name : {"node-0", "a", "A_b.c", "agent-host.example"})
    CHECK(is_process_name(name));
  for (const auto& name : {std::string(),
                           std::string(".hidden"),
                           std::string("a/b"),
                           std::string("a b"),
                           std::string(65, 'x'),
                           std::string("..")})
    CHECK_FALSE(is_process_name(name));
}
