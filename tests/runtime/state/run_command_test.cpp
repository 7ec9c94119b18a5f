#include "runtime/state/run_command.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

namespace troupe::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using runtime::is_kept;
using runtime::name_of;
using runtime::read_run_command;
using runtime::text_of;

}  // namespace

TEST_CASE("a command is read and written as JSON") {
  for (const auto* text : {R"({"command":"status"})",
                           R"({"command":"pause"})",
                           R"({"command":"resume"})",
                           R"({"command":"save"})",
                           R"({"command":"evaluate"})",
                           R"({"command":"learning_rate","rate":0.0001})",
                           R"({"command":"log_level","level":"debug"})",
                           R"({"command":"eval_interval","steps":0})",
                           R"({"command":"save_interval","steps":250})",
                           R"({"command":"replace","worker":"stage:0.1"})",
                           R"({"command":"stop_after","step":9007199254740992})",
                           R"({"command":"stop"})",
                           R"({"command":"trace","steps":1000})",
                           R"({"command":"norms","of":"decoder.layers.3.","steps":2})"})
    CHECK(text_of(read_run_command(text)) == text);
}

TEST_CASE("every command is read by its name") {
  for (const auto name : runtime::command_names()) {
    INFO(name);
    try {
      const auto read = read_run_command(fmt::format(R"({{"command":"{}"}})", name));
      CHECK(name_of(read) == name);
    } catch (const runtime::input_error& failure) {
      CHECK_THAT(failure.what(), ContainsSubstring(fmt::format("cannot carry out '{}'", name)));
    }
  }
}

TEST_CASE("the error for an invalid command lists its arguments") {
  const auto refuses = [](const char* text, const char* with) {
    INFO(text);
    CHECK_THROWS_MATCHES(
        read_run_command(text), runtime::input_error, MessageMatches(ContainsSubstring(with)));
  };
  refuses("", "is not a command");
  refuses("[1]", "is not a command");
  refuses(R"({"command":7})", "is not a command");
  refuses(R"({"command":{"a":{"b":{}}}})", "is not a command");
  refuses(R"({"command":"reboot"})", "commands: status, pause");
  refuses(R"({"command":"pause","now":true})", "it takes no arguments");
  refuses(R"({"command":"learning_rate"})", "`rate` (a number above 0)");
  refuses(R"({"command":"learning_rate","rate":0})", "a number above 0");
  refuses(R"({"command":"learning_rate","rate":-1})", "a number above 0");
  refuses(R"({"command":"learning_rate","rate":"1"})", "a number above 0");
  refuses(R"({"command":"learning_rate","rate":1e-4,"step":3})", "`rate`");
  refuses(R"({"command":"log_level","level":"loud"})", "debug, info, warning or error");
  refuses(R"({"command":"eval_interval","steps":-1})", "a number of steps");
  refuses(R"({"command":"eval_interval","steps":2.5})", "a number of steps");
  refuses(R"({"command":"eval_interval","steps":1e300})", "a number of steps");
  refuses(R"({"command":"stop_after","step":0})", "the number of a step");
  refuses(R"({"command":"trace","steps":0})", "from 1 to 1000");
  refuses(R"({"command":"trace","steps":1001})", "from 1 to 1000");
  const auto long_name
      = fmt::format(R"({{"command":"replace","worker":"{}"}})", std::string(300, 'x'));
  refuses(long_name.c_str(), "a process or a stage");
}

TEST_CASE("a command is read from the words of a command line") {
  using words = std::vector<std::string>;
  CHECK(text_of(read_run_command(words{"pause"})) == R"({"command":"pause"})");
  CHECK(text_of(read_run_command(words{"learning-rate", "1e-4"}))
        == R"({"command":"learning_rate","rate":0.0001})");
  CHECK(text_of(read_run_command(words{"replace", "7"}))
        == R"({"command":"replace","worker":"7"})");
  CHECK(text_of(read_run_command(words{"stop_after", "300"}))
        == R"({"command":"stop_after","step":300})");
  const auto refuses = [](const words& all, const char* with) {
    CHECK_THROWS_MATCHES(
        read_run_command(all), runtime::input_error, MessageMatches(ContainsSubstring(with)));
  };
  refuses({}, "commands: status, pause");
  refuses({"reboot"}, "unknown command 'reboot'");
  refuses({"pause", "now"}, "'pause' takes no value, and one is given");
  refuses({"trace"}, "'trace' takes one value: a number from 1 to 1000, and none is given");
  refuses({"norms", "decoder."},
          "'norms' takes 2 values: the beginning of the names of parameters");
  refuses({"trace", "many"}, "from 1 to 1000");
}

TEST_CASE("commands that change the run are kept") {
  CHECK(is_kept(read_run_command(R"({"command":"pause"})")));
  CHECK(is_kept(read_run_command(R"({"command":"learning_rate","rate":1})")));
  CHECK_FALSE(is_kept(read_run_command(R"({"command":"status"})")));
  CHECK(is_kept(read_run_command(R"({"command":"trace","steps":1})")));
}

}  // namespace troupe::tests
