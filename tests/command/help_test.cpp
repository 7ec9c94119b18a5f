#include "actors/command/commands.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <string>

using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

const command_description& below(const command_description& x, const std::string& name) {
  return *std::find_if(
      x.commands.begin(), x.commands.end(), [&](const auto& y) { return y.name() == name; });
}

command_description described() {
  command_line program("troupe", "");
  add_commands(program);
  return program.describe();
}

}  // namespace

TEST_CASE("the help of memory requires only flags that its forecast needs", "[command]") {
  const auto program = described();
  const auto& memory = below(program, "memory");
  REQUIRE(memory.beginnings.size() == 2);
  const auto& required = memory.beginnings[0];
  for (const auto* flag : {"--num-layers", "--seq-length", "--micro-batch-size", "--vocab-size"})
    CHECK_THAT(required, ContainsSubstring(flag));
  for (const auto* flag : {"--lr", "--data-path", "--mock-data", "--train-iters"})
    CHECK_THAT(required, !ContainsSubstring(flag));
  CHECK_THAT(memory.beginnings[1], StartsWith("Example: troupe memory "));
}

TEST_CASE("the help of training requires the flags of a run", "[command]") {
  const auto program = described();
  const auto& gpt = below(below(program, "train"), "gpt");
  REQUIRE(gpt.beginnings.size() == 2);
  for (const auto* flag : {"--num-layers", "--lr", "--data-path", "--mock-data", "--train-iters"})
    CHECK_THAT(gpt.beginnings[0], ContainsSubstring(flag));
  CHECK_THAT(gpt.beginnings[1], ContainsSubstring("troupe train gpt "));
}
