#include "runtime/core/setting.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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
  double other = 3;
};

/// A struct whose last member has this type.
template <class Last>
struct ending {
  int first = 0;
  Last last = {};
};

template <class Last>
constexpr bool needs_its_last_row() {
  using x = ending<Last>;
  constexpr auto first = row("first", &x::first);
  return detail::are_all_members(std::tuple(first, row("last", &x::last)))
         && !detail::are_all_members(std::tuple(first))
         && !detail::are_all_members(std::tuple(first, row("last", &x::first)));
}

template <class Value>
concept may_decide = requires(setting_row<ending<Value>, Value> row) {
  row.decides();
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
  constexpr auto other = row("other", &outer::other);
  STATIC_CHECK(complete(on, in, name, last, other));
  STATIC_CHECK_FALSE(complete(on, in, name, last));
  STATIC_CHECK_FALSE(complete(on, in, last, other));
  STATIC_CHECK_FALSE(complete(on, name, last, other));
  STATIC_CHECK_FALSE(complete(in, name, last, other));
  STATIC_CHECK_FALSE(complete(on, in, name, last, other, other));
  STATIC_CHECK(needs_its_last_row<std::string>());
  STATIC_CHECK(needs_its_last_row<std::filesystem::path>());
  STATIC_CHECK(needs_its_last_row<std::optional<double>>());
  STATIC_CHECK(needs_its_last_row<std::vector<int>>());
  STATIC_CHECK(needs_its_last_row<inner>());
}

TEST_CASE("SETTING-1: two rows of a member, of a key or of a name are refused", "[core]") {
  constexpr auto on = row("on", &outer::on);
  constexpr auto in = row("in", &outer::in);
  constexpr auto name = row("name", &outer::name);
  constexpr auto last = row("last", &outer::last);
  STATIC_CHECK_FALSE(complete(on, in, name, last, row("other", &outer::last)));
  STATIC_CHECK_FALSE(complete(on, in, name, last, row("on", &outer::other)));
  STATIC_CHECK_FALSE(complete(on, in, name, last, row("other", &outer::other).named("last")));
}

TEST_CASE("a row decides only a value that the identity can describe", "[core]") {
  STATIC_CHECK(may_decide<bool>);
  STATIC_CHECK(may_decide<std::string>);
  STATIC_CHECK(may_decide<inner>);
  STATIC_CHECK_FALSE(may_decide<std::filesystem::path>);
  STATIC_CHECK_FALSE(may_decide<std::optional<double>>);
  STATIC_CHECK_FALSE(may_decide<std::vector<int>>);
  STATIC_CHECK_FALSE(may_decide<outer>);
}

TEST_CASE("a row says when it decides, if it travels and if it came later", "[core]") {
  const auto plain = row("a", &inner::a);
  CHECK(plain.decides_bits == nullptr);
  CHECK(plain.travels);
  CHECK_FALSE(plain.optional);
  CHECK_FALSE(row("a", &inner::a).stays().travels);
  CHECK(row("a", &inner::a).later().optional);
  const auto above_1 = row("a", &inner::a).decides([](const inner& x) { return x.a > 1; });
  CHECK_FALSE(above_1.decides_bits({.a = 1}));
  CHECK(above_1.decides_bits({.a = 2}));
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
