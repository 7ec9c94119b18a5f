#include "runtime/core/json_list.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

struct inner {
  int x = 0;
  friend bool operator==(const inner&, const inner&) = default;
};

/// Its only member may be left out.
struct listed {
  std::vector<inner> all = {};
  friend bool operator==(const listed&, const listed&) = default;
};

struct outer {
  int number = 0;
  listed nested = {};
  std::vector<inner> first = {}, second = {};
  friend bool operator==(const outer&, const outer&) = default;
};

struct numbered {
  std::vector<std::int64_t> wide = {};
  std::vector<int> narrow = {};
  friend bool operator==(const numbered&, const numbered&) = default;
};

}  // namespace

TEST_CASE("lists of integers are JSON lists, whatever they hold", "[json]") {
  const numbered x{.wide = {1, -(std::int64_t{1} << 60)}};
  CHECK(json_list(x).dump() == "[[1,-1152921504606846976],[]]");
  CHECK(value_of_json_list<numbered>(json_list(x)) == x);
  const auto is_refused = [](const char* text) {
    return !value_of_json_list<numbered>(nlohmann::json::parse(text)).has_value();
  };
  CHECK(is_refused("[[1]]"));
  CHECK(is_refused("[1,[]]"));
  CHECK(is_refused("[[1.5],[]]"));
  CHECK(is_refused("[[],[2147483648]]"));
}

TEST_CASE("empty lists at the end are left out, and only lists", "[json]") {
  const auto text = [](const outer& x) {
    const auto list = json_list(x);
    CHECK(value_of_json_list<outer>(list) == x);
    return list.dump();
  };
  CHECK(text({.number = 3}) == "[3,[]]");
  CHECK(text({.number = 3, .first = {{1}}}) == "[3,[],[[1]]]");
  CHECK(text({.number = 3, .second = {{1}}}) == "[3,[],[],[[1]]]");
  CHECK(text({.nested = {{{2}}}}) == "[0,[[[2]]]]");
}
