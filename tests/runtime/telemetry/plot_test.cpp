#include "runtime/telemetry/plot.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

}  // namespace

TEST_CASE("ticks stand at round numbers inside the interval", "[telemetry]") {
  CHECK(round_ticks(0, 200, 8) == std::vector<double>{0, 50, 100, 150, 200});
  CHECK(round_ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(round_ticks(3.31, 3.39, 4).size() >= 3);
}

TEST_CASE("each curve is drawn, with a legend when there are several", "[telemetry]") {
  const curve training{"training", {{1, 3}, {2, 2}, {3, 1.5}}};
  const curve validation{"<valid & co>", {{2, 2.5}}, true};
  const auto one = svg_plot({"Loss", "iteration", "loss"}, {training});
  CHECK(count(one, "<path") == 1);
  CHECK_THAT(one, !ContainsSubstring(">training<"));
  const auto both = svg_plot({"Loss", "iteration", "loss"}, {training, validation});
  CHECK(count(both, "<path") == 2);
  CHECK_THAT(both, ContainsSubstring(">training<") && ContainsSubstring("&lt;valid &amp; co>"));
  CHECK(count(both, "<circle") == 1);
}

TEST_CASE("points that are no numbers are left out", "[telemetry]") {
  const auto page = svg_plot({"", "", ""},
                             {{"x",
                               {{1, std::numeric_limits<double>::quiet_NaN()},
                                {2, std::numeric_limits<double>::infinity()},
                                {3, 1}}}});
  CHECK_THAT(page, !ContainsSubstring("nan") && !ContainsSubstring("inf"));
  CHECK_THAT(svg_plot({"", "", ""}, {}), ContainsSubstring("</svg>"));
}

TEST_CASE("a million points make a small picture that keeps the peaks", "[telemetry]") {
  curve x{"x", {}};
  for (int i = 0; i < 1'000'000; ++i)
    x.points.push_back({double(i), i == 500'000 ? 100.0 : 1.0});
  const auto page = svg_plot({"", "", ""}, {x});
  CHECK(page.size() < 60'000);
  x.points.resize(400'000);
  CHECK(svg_plot({"", "", ""}, {x}) != page);
}
