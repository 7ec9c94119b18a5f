#include "runtime/core/setting.hpp"

#include <catch2/catch_test_macros.hpp>

#include <optional>
#include <string>

using namespace troupe::runtime;

namespace {

struct inner {
  int a = 1;
  std::string b = "b";

  static constexpr auto fields() {
    return std::tuple(row("a", &inner::a).decides(), row("b", &inner::b).named("other"));
  }
};

struct outer {
  bool on = false;
  inner in;
  std::optional<std::string> name;
  double last = 2;
};

template <class... Row>
constexpr bool complete(Row... rows) {
  return detail::are_all_members(std::tuple(rows...));
}

}  // namespace

TEST_CASE("SETTING-1: rows that lack a member are refused", "[core]") {
  constexpr auto on = row("on", &outer::on);
  constexpr auto in = row("in", &outer::in);
  constexpr auto name = row("name", &outer::name);
  constexpr auto last = row("last", &outer::last);
  STATIC_CHECK(complete(on, in, name, last));
  STATIC_CHECK_FALSE(complete(on, in, name));
  STATIC_CHECK_FALSE(complete(on, name, last));
  STATIC_CHECK_FALSE(complete(in, name, last));
  STATIC_CHECK_FALSE(complete(on, in, name, last, last));
}

TEST_CASE("a visitor gets the rows in order", "[core]") {
  std::string seen;
  inner x;
  for_each_field<inner>([&](const auto& row) {
    seen += row.name;
    seen += row.decides_bits != nullptr && row.decides_bits(x) ? "! " : " ";
    x.*row.member = {};
  });
  CHECK(seen == "a! other ");
  CHECK(x.a == 0);
  CHECK(x.b.empty());
  STATIC_CHECK(has_fields<inner>);
  STATIC_CHECK_FALSE(has_fields<outer>);
}
