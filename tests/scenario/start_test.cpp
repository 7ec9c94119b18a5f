// Warnings about a checkpoint before a run continues from it.

#include "actors/job/start.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("identities are compared by content, also empty ones", "[scenario]") {
  CHECK(actors::differences("{}", "{}").empty());
  CHECK(actors::differences(R"({"a": {}})", R"({"a": {}})").empty());
  CHECK_THAT(actors::differences("{}", R"({"a": {"b": 1}})"),
             ContainsSubstring("a/b: checkpoint nothing, this run 1"));
}

TEST_CASE("control characters in a key are escaped", "[scenario]") {
  const auto said = actors::differences("{\"x\\u001b[2J\": 1}", "{}");
  CHECK_THAT(said, ContainsSubstring("x\\u001b[2J: checkpoint 1, this run nothing"));
  CHECK(said.find('\x1b') == std::string::npos);
}
