#include "actors/command/commands.hpp"
#include "actors/command/completion.hpp"

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

TEST_CASE("a command with flags and commands tells both", "[command]") {
  command_line program("troupe", "");
  auto& memory = program.command("memory", "forecasts.");
  memory.toggle("--json", "Prints JSON.", [] {});
  memory.runs([] { return 0; });
  memory.command("toy", "forecasts a toy.").toggle("--patches", "Has patches.", [] {});
  const auto all = program.describe();
  const auto& both = all.commands.front();
  CHECK(usage_of(both) == "troupe memory [COMMAND] [FLAG ...]");
  CHECK(usage_of(all) == "troupe COMMAND ...");
  CHECK_THAT(help_page(both), ContainsSubstring("--json") && ContainsSubstring("forecasts a toy"));
  CHECK_THAT(
      short_help_page(both),
      ContainsSubstring("--json") && ContainsSubstring("toy") && !ContainsSubstring("Prints JSON"));
  const auto zsh = zsh_completion(all);
  const auto from = zsh.find("_troupe_memory() {");
  REQUIRE(from != std::string::npos);
  CHECK_THAT(zsh.substr(from, zsh.find("\n}\n", from) - from),
             ContainsSubstring("_describe command below") && ContainsSubstring("_troupe_memory_toy")
                 && ContainsSubstring("--json"));
}
