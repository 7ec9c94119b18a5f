#include "runtime/core/members.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

struct inner {
  int a = 1;
  double b = 2;
};
struct outer {
  std::string text = "x";
  inner nested;
  std::vector<inner> list = {};
  std::array<int, 3> numbers = {};
  std::map<std::string, inner> by_name;
  std::unique_ptr<int> owned;

  int size() const { return int(text.size()); }
};
struct nothing {};
class with_private {
 public:
  int x() const { return x_; }

 private:
  int x_ = 0;
};

}  // namespace

TEST_CASE("an aggregate has as many members as its struct declares", "[members]") {
  STATIC_REQUIRE(count_members<nothing>() == 0);
  STATIC_REQUIRE(count_members<inner>() == 2);
  STATIC_REQUIRE(count_members<outer>() == 6);
}

TEST_CASE("members are visited in the order of their declaration, and may be changed",
          "[members]") {
  inner x;
  with_members(x, [](int& a, double& b) {
    a = 3;
    b = 4;
  });
  CHECK(x.a == 3);
  CHECK(x.b == 4);
  const outer y;
  const auto seen
      = with_members(y, [&](auto&... members) { return std::vector<const void*>{&members...}; });
  CHECK(seen
        == std::vector<const void*>{&y.text, &y.nested, &y.list, &y.numbers, &y.by_name, &y.owned});
}

TEST_CASE("classes with constructors or private members, and arrays, are no aggregates",
          "[members]") {
  STATIC_REQUIRE(aggregate<outer>);
  STATIC_REQUIRE_FALSE(aggregate<with_private>);
  STATIC_REQUIRE_FALSE(aggregate<std::string>);
  STATIC_REQUIRE_FALSE(aggregate<std::array<int, 3>>);
  STATIC_REQUIRE_FALSE(aggregate<int>);
}
