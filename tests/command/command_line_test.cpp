#include "actors/command/command_line.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the nearest name is the one with the fewest letters to change", "[command]") {
  const std::vector<std::string> names = {"--seed", "--save", "--split", "--seq-length"};
  CHECK(nearest("--sed", names) == "--seed");
  CHECK(nearest("--seq-lenght", names) == "--seq-length");
  CHECK(nearest("--something-else-entirely", names).empty());
  CHECK(nearest("tarin", {"train"}) == "train");
  CHECK(nearest("--model", {"--nodes"}).empty());
  CHECK(nearest("--ir", {"--lr"}) == "--lr");
}

TEST_CASE("the last of two equal flags counts", "[command]") {
  command_line line("x", "");
  std::int64_t n = 0;
  std::vector<std::string> list;
  line.value("--n", "N", "", whole(n));
  line.values("--list", "WORD", 1, 100, "", all(list));
  line.runs([] { return 7; });
  CHECK(line.parse({"--n", "1", "--list", "a", "b", "--n=2", "--list", "c"})() == 7);
  CHECK(n == 2);
  CHECK(list == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("a value may be empty, negative or begin with dashes", "[command]") {
  command_line line("x", "");
  std::string words;
  double number = 0;
  line.value("--text", "TEXT", "", text(words));
  line.value("--number", "X", "", real(number, real_range{}));
  line.runs([] { return 0; });
  line.parse({"--text", "--- not a flag", "--number", "-1.5e-3"});
  CHECK(words == "--- not a flag");
  CHECK(number == -1.5e-3);
  line.parse({"--text", ""});
  CHECK(words.empty());
}

TEST_CASE("FLAG-1: a command has one flag of each name", "[command]") {
  command_line line("x", "");
  bool on = false;
  std::string words;
  line.toggle("--same", "", [&] { on = true; });
  CHECK_THROWS_AS(line.value("--same", "TEXT", "", text(words)), troupe::runtime::broken_promise);
  CHECK_THROWS_AS(line.accepted("--same", 0, ""), troupe::runtime::broken_promise);
}

TEST_CASE("a command line can be parsed repeatedly", "[command]") {
  command_line line("x", "");
  std::vector<std::string> files, list;
  bool on = false;
  line.values("--list", "WORD", 2, 2, "", all(list));
  line.toggle("--on", "", [&] { on = true; });
  line.accepted("--ignored", 1, "");
  line.words("FILE", "", files);
  line.runs([] { return 0; });
  line.parse({"--on", "one", "--list", "a", "b", "--ignored", "x", "two"});
  CHECK(on);
  CHECK(list == std::vector<std::string>{"a", "b"});
  CHECK(files == std::vector<std::string>{"one", "two"});
  CHECK(line.settings().size() == 3);
  on = false;
  line.parse({"three", "--on=false"});
  CHECK_FALSE(on);
  CHECK(files == std::vector<std::string>{"three"});
  CHECK(line.settings().empty());
  CHECK_THROWS_AS(line.parse({"--list", "--on"}), usage_error);
  CHECK_THROWS_AS(line.parse({"--of=1"}), usage_error);
}

TEST_CASE("a line notes the given settings; a target that counts only if given is a setting then",
          "[command]") {
  command_line line("x", "");
  std::set<std::string, std::less<>> given;
  std::int64_t n = 4, m = 5;
  std::string kind;
  line.notes(given);
  auto only_given = whole(n);
  only_given.only_given = true;
  line.value({.name = "--n", .field = "some.n", .type = "N"}, only_given);
  line.value({.name = "--m", .field = "some.m", .type = "N"}, whole(m));
  line.toggle({.name = "--kind-a", .field = "kind=a"}, [&] { kind = "a"; });
  line.runs([] { return 0; });
  line.parse({"--kind-a"});
  CHECK(given.contains("kind=a"));
  CHECK(given.contains("kind"));
  CHECK_FALSE(given.contains("some.n"));
  CHECK(line.settings().size() == 2);  // --m has a value
  given.insert("some.n");              // decided later
  CHECK(line.settings().front().words == std::vector<std::string>{"4"});
  const auto flags = line.describe().groups.front().flags;
  CHECK(flags[0].default_value.empty());
  CHECK(flags[1].default_value == "5");
}

TEST_CASE("only --help-faults shows flags that inject faults", "[command]") {
  command_line line("x", "");
  std::string word;
  line.value({.name = "--plant", .type = "WORD", .help = "Breaks.", .injects_faults = true},
             text(word));
  line.runs([] { return 7; });
  for (const auto& page : {line.help(), line.short_help()}) {
    CHECK_THAT(page, !ContainsSubstring("--plant"));
    CHECK_THAT(page, ContainsSubstring("--help-faults"));
  }
  CHECK_THAT(faults_help_page(line.describe()), ContainsSubstring("--plant WORD"));
  CHECK(line.parse({"--plant", "a"})() == 7);
  CHECK(word == "a");
}

TEST_CASE("a command is found by its name, and its errors name it", "[command]") {
  command_line program("troupe", "");
  auto& train = program.command("train", "trains");
  train.command("gpt", "a GPT", [] { return 5; });
  CHECK(program.parse({"train", "gpt"})() == 5);
  try {
    program.parse({"train", "gpt", "--frobnicate"});
    FAIL("an unknown flag was accepted");
  } catch (const usage_error& failure) {
    CHECK(failure.command == "troupe train gpt");
  }
  CHECK_THROWS_WITH(program.parse({"tarin"}), ContainsSubstring("did you mean 'train'?"));
  CHECK_THROWS_WITH(program.parse({"train"}), ContainsSubstring("needs a command: gpt"));
}

TEST_CASE("a usage error thrown by the work names its command", "[command]") {
  command_line program("troupe", "");
  program.command("plot", "", []() -> int { throw usage_error("no log"); });
  try {
    program.parse({"plot"})();
    FAIL("nothing was thrown");
  } catch (const usage_error& failure) {
    CHECK(failure.command == "troupe plot");
  }
}

TEST_CASE("help shows each flag in its group within 100 columns", "[command]") {
  command_line line("troupe x", "does x.");
  std::string a;
  line.group("First");
  line.value("--a",
             "TEXT",
             "A long story that has to be told in many words and goes on and on, "
             "until it does not fit a line any more, as such stories do.",
             text(a));
  line.group("Empty");
  line.group("Second");
  line.toggle("--a-very-long-flag-name-that-needs-a-line-of-its-own", "Short.", [] {});
  const auto page = line.help();
  CHECK_THAT(page, ContainsSubstring("First\n  --a TEXT") && !ContainsSubstring("Empty"));
  CHECK_THAT(page, ContainsSubstring("usage: troupe x [FLAG ...]\n\n  -h, --help"));
  std::size_t column = 0;
  for (const char c : page) {
    column = c == '\n' ? 0 : column + 1;
    REQUIRE(column <= 100);
  }
}

TEST_CASE("short help shows each flag in its group and breaks lines between flags", "[command]") {
  command_line line("troupe x", "does x.");
  std::string a;
  for (int i = 0; i < 9; ++i)
    line.value("--number-" + std::to_string(i), "TEXT OF ITS OWN", "A story.", text(a));
  line.group("Second");
  line.toggle("--b", "Short.", [] {});
  const auto page = line.short_help();
  CHECK_THAT(page,
             ContainsSubstring("usage: troupe x [FLAG ...]\n\n  --number-0 TEXT OF ITS OWN, --"));
  CHECK_THAT(page, ContainsSubstring(",\n  --number-8 TEXT OF ITS OWN\n\nSecond\n  --b\n"));
  CHECK_THAT(page, ContainsSubstring("troupe x --help") && !ContainsSubstring("story"));
  for (std::size_t at = 0; at < page.size(); at = page.find('\n', at) + 1)
    CHECK(page.find('\n', at) - at <= 80);
}

TEST_CASE("help shows range, unit and default of a number; errors show range and default",
          "[command]") {
  command_line line("x", "");
  std::int64_t n = 7;
  double p = 0.5;
  line.value({.name = "--n", .type = "N", .unit = "steps", .help = "How many."}, whole(n, 1, 9));
  line.value({.name = "--p", .type = "P", .default_value = "half", .help = "How likely."},
             real(p, {.least = 0, .above = true}));
  line.runs([] { return 0; });
  CHECK_THAT(line.help(),
             ContainsSubstring("How many. Range: 1 to 9 steps. Default: 7.")
                 && ContainsSubstring("How likely. Range: above 0. Default: half."));
  CHECK_THROWS_WITH(line.parse({"--n", "10"}),
                    ContainsSubstring("--n '10': give a whole number from 1 to 9 (default: 7)"));
  CHECK_THROWS_WITH(line.parse({"--p", "0"}),
                    ContainsSubstring("--p '0': give a number above 0 (default: half)"));
  CHECK(n == 7);
  CHECK(p == 0.5);
}

TEST_CASE("an error shows the beginning of a long word", "[command]") {
  command_line line("x", "");
  std::int64_t n = 7;
  line.value("--n", "N", "", whole(n, 1, 9));
  line.runs([] { return 0; });
  try {
    line.parse({"--n", std::string(5'000'000, '9')});
    FAIL("it was taken");
  } catch (const usage_error& failure) {
    CHECK(std::string(failure.what()).size() < 300);
  }
  CHECK(shown(std::string(79, 'x') + "\u00e4\u00e4") == std::string(79, 'x') + "...");
}
