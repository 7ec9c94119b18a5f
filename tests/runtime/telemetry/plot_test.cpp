#include "runtime/telemetry/plot.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
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

TEST_CASE("ticks are round numbers inside the interval", "[telemetry]") {
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
  CHECK(count(both, "<circle") == 2);  // on the curve and in the legend
}

TEST_CASE("a mark is a vertical line with its label, inside the curves alone", "[telemetry]") {
  const curve training{"training", {{1, 3}, {9, 2}}};
  const auto page
      = svg_plot({"", "", ""}, {training}, {{3, "process:1 <killed>"}, {4, ""}, {10, "later"}});
  CHECK(count(page, "stroke-dasharray=\"3 3\"") == 2);
  CHECK_THAT(page, ContainsSubstring(">process:1 &lt;killed><") && !ContainsSubstring("later"));
}

TEST_CASE("points that are not finite are left out", "[telemetry]") {
  const auto page = svg_plot({"", "", ""},
                             {{"x",
                               {{1, std::numeric_limits<double>::quiet_NaN()},
                                {2, std::numeric_limits<double>::infinity()},
                                {3, 1}}}});
  CHECK_THAT(page, !ContainsSubstring("nan") && !ContainsSubstring("inf"));
  CHECK_THAT(svg_plot({"", "", ""}, {}), ContainsSubstring("</svg>"));
}

TEST_CASE("a million points make a small picture that keeps the peaks", "[telemetry][unthreaded]") {
  curve x{"x", {}};
  for (int i = 0; i < 1'000'000; ++i)
    x.points.push_back({double(i), i == 500'000 ? 100.0 : 1.0});
  const auto page = svg_plot({"", "", ""}, {x});
  CHECK(page.size() < 60'000);
  x.points.resize(400'000);
  CHECK(svg_plot({"", "", ""}, {x}) != page);
}

TEST_CASE("means use neighbours on both sides, and fewer at the ends", "[telemetry]") {
  const std::vector<curve_point> x = {{1, 3}, {2, 6}, {3, std::nan("")}, {4, 0}, {5, 9}};
  const auto ys = [](const std::vector<curve_point>& points) {
    std::vector<double> out;
    for (const auto& p : points)
      out.push_back(p.y);
    return out;
  };
  CHECK(ys(smoothed(x, 1)) == std::vector<double>{3, 6, 0, 9});
  CHECK(ys(smoothed(x, 3)) == std::vector<double>{4.5, 3, 5, 4.5});
  CHECK(ys(smoothed(x, 100)) == std::vector<double>{4.5, 4.5, 4.5, 4.5});
  CHECK(smoothed(x, 3)[2].x == 4);
}

TEST_CASE("a logarithmic axis has round ticks and leaves out values that are not positive",
          "[telemetry]") {
  CHECK(logarithmic_ticks(0.9, 11) == std::vector<double>{1, 2, 5, 10});
  CHECK(logarithmic_ticks(1e-9, 1).size() == 10);
  CHECK(logarithmic_ticks(3.3, 3.4).size() >= 3);
  const auto page = svg_plot({"", "", "", true}, {{"x", {{1, 100}, {2, 0}, {3, -1}, {4, 1}}}});
  CHECK(count(page, " L") == 1);
}

TEST_CASE("a legend is below the plot, and long labels are cut in the middle", "[telemetry]") {
  std::string longest;
  for (int i = 0; i < 100; ++i)
    longest += "\u00e4\u4e2d";
  const auto page
      = svg_plot({"", "", ""}, {{"beginning" + longest + "end", {{1, 1}}}, {"b", {{1, 2}}}});
  CHECK_THAT(page,
             ContainsSubstring(">beginning") && ContainsSubstring("\u2026")
                 && ContainsSubstring("end<") && !ContainsSubstring(longest));
  CHECK_THAT(page, ContainsSubstring("height=\"550\""));  // two rows
}

TEST_CASE("curves beyond the number of colours are dashed", "[telemetry]") {
  std::vector<curve> many;
  for (int i = 0; i < 8; ++i)
    many.push_back({std::to_string(i), {{0, double(i)}, {1, double(i)}}});
  CHECK(count(svg_plot({"", "", ""}, many), "stroke-dasharray") == 2);  // curve and legend
  many.pop_back();
  CHECK(count(svg_plot({"", "", ""}, many), "stroke-dasharray") == 0);
}
