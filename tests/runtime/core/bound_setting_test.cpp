#include "runtime/core/bound_setting.hpp"

#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe::runtime;

namespace {

enum class shape { flat, round, square };
std::string_view to_string(shape x) {
  return x == shape::flat ? "flat" : x == shape::round ? "round" : "square";
}

struct inner {
  bool on = false;
  double share = 0.5;
  bool shown = true;

  static constexpr auto changed_at_resume = at_resume::refused;
  static constexpr auto fields() {
    using x = inner;
    return std::tuple(
        row("on", &x::on).flag({.name = "--on", .type = "WHAT"}),
        row("share", &x::share)
            .flag({.name = "--share", .range = real_range{0, 1}, .resume = at_resume::free}),
        row("shown", &x::shown).flag({.name = "--hide", .value = "false"}));
  }
};

struct outer {
  inner in;
  inner same;
  int count = 0;
  double ratio = 1;
  shape form = shape::flat;
  std::string text, several;
  std::optional<std::filesystem::path> file;
  std::vector<std::int64_t> list;
  elsewhere apart;

  static constexpr auto fields() {
    using x = outer;
    return std::tuple(
        row("in", &x::in),
        row("same", &x::same).named(""),
        row("count", &x::count).decides().flag({.name = "--count"}),
        row("ratio", &x::ratio).flag({.name = "--ratio", .type = "N", .range = whole_range{1, 9}}),
        row("form", &x::form)
            .flag({.name = "--form", .type = "NAME"})
            .flag({.name = "--square", .value = "square", .gives = int(shape::square)})
            .one_of(shape::round, shape::square),
        row("text", &x::text).flag({.name = "--text", .type = "NAME", .choices = "a b"}),
        row("several", &x::several).flag({.name = "--several", .type = "NAME...", .most = 9}),
        row("file", &x::file).flag({.name = "--file", .type = "FILE"}),
        row("list", &x::list).flag({.name = "--list", .type = "N...", .most = 9}),
        row("apart", &x::apart).flag({.name = "--apart", .type = "N"}));
  }
};

struct without_values {
  shape form = shape::flat;

  static constexpr auto fields() {
    return std::tuple(row("form", &without_values::form).flag({.name = "--form", .type = "NAME"}));
  }
};

struct with_another_value {
  shape form = shape::flat;

  static constexpr auto fields() {
    return std::tuple(
        row("form", &with_another_value::form).flag({.name = "--square", .value = "square"}));
  }
};

using words = std::vector<std::string>;

struct bound {
  outer to;
  std::vector<bound_setting> all = bind_settings(to);

  bound_setting& operator[](std::string_view name) {
    return *std::ranges::find(all, name, &bound_setting::name);
  }
};

}  // namespace

TEST_CASE("settings are bound in the order of their rows, by their whole names", "[core]") {
  bound x;
  words names;
  for (const auto& one : x.all)
    names.push_back(one.name);
  CHECK(names
        == words{"in.on",
                 "in.share",
                 "in.shown=false",
                 "on",
                 "share",
                 "shown=false",
                 "count",
                 "ratio",
                 "form",
                 "form=square",
                 "text",
                 "several",
                 "file",
                 "list",
                 "apart"});
}

TEST_CASE("a bound setting sets its member from words", "[core]") {
  bound x;
  x["in.on"].set({"on"});
  x["in.share"].set({"0.25"});
  x["in.shown=false"].set({});
  x["count"].set({"7"});
  x["ratio"].set({"3"});
  x["form"].set({"round"});
  x["text"].set({"b"});
  x["several"].set({"a", "b"});
  x["file"].set({"/tmp/f"});
  x["list"].set({"1", "2"});
  CHECK(x.to.in.on);
  CHECK_FALSE(x.to.same.on);
  CHECK(x.to.in.share == 0.25);
  CHECK_FALSE(x.to.in.shown);
  CHECK(x.to.count == 7);
  CHECK(x.to.ratio == 3);
  CHECK(x.to.form == shape::round);
  CHECK(x.to.text == "b");
  CHECK(x.to.several == "a,b");
  CHECK(x.to.file == "/tmp/f");
  CHECK(x.to.list == std::vector<std::int64_t>{1, 2});
  x["form=square"].set({});
  CHECK(x.to.form == shape::square);
  CHECK_FALSE(x["apart"].set);
}

TEST_CASE("a bound setting shows the value of its member", "[core]") {
  bound x;
  CHECK(x["in.on"].now() == "off");
  CHECK(x["in.share"].now() == "0.5");
  CHECK(x["count"].now() == "0");
  CHECK(x["ratio"].now() == "1");
  x.to.form = shape::round;
  CHECK(x["form"].now() == "round");
  CHECK(x["text"].now() == std::nullopt);
  CHECK(x["file"].now() == std::nullopt);
  x.to.count = -1;  // stands for none
  CHECK(x["count"].now() == std::nullopt);
  CHECK_FALSE(x["form=square"].now);
  CHECK_FALSE(x["list"].now);
}

TEST_CASE("a bound setting has choices, range and what a resume says", "[core]") {
  bound x;
  CHECK(x["count"].type == std::string("N"));
  CHECK(x["in.share"].type == std::string("X"));
  CHECK(x["in.shown=false"].is_toggle());
  CHECK(x["in.on"].choices == words{"on", "off"});
  CHECK(x["form"].choices == words{"round", "square"});
  CHECK(x["text"].choices == words{"a", "b"});
  CHECK(std::holds_alternative<whole_range>(x["count"].range));
  CHECK(std::holds_alternative<std::monostate>(x["file"].range));
  CHECK(x["count"].resume == at_resume::told);
  CHECK(x["text"].resume == at_resume::free);
  CHECK(x["in.on"].resume == at_resume::refused);
  CHECK(x["in.share"].resume == at_resume::free);
}

TEST_CASE("SETTING-3: a flag of an enumeration lists its values, a toggle gives what it names",
          "[core]") {
  without_values no_values;
  CHECK_BREAKS("SETTING-3", bind_settings(no_values));
  with_another_value another;
  CHECK_BREAKS("SETTING-3", bind_settings(another));
}
