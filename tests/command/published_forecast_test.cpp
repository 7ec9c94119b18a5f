#include "tests/command/published_rows.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

using namespace troupe;
using namespace troupe::tests;

namespace {

double error_of(const published_row& row) {
  return forecast_of(row, layout_of(row)).seconds / row.seconds - 1;
}

}  // namespace

TEST_CASE("forecasts of published rows stay as close as they are", "[forecast]") {
  const auto rows = published_rows(source_dir());
  REQUIRE(rows.size() == 31);
  std::set<std::string> far;
  double fitted = 0, held_out = 0;
  int fits = 0, others = 0;
  for (const auto& row : rows) {
    INFO(row.table << " " << row.name);
    const double error = error_of(row);
    CHECK(std::abs(error) <= row.bound);
    CHECK(std::abs(error) >= row.bound - 0.006);  // a smaller error needs a smaller bound
    if (std::abs(error) > 0.1)
      far.insert(row.name);
    if (row.calibrates)
      continue;
    (row.fitted ? fitted : held_out) += std::abs(error);
    ++(row.fitted ? fits : others);
  }
  // The page names this row, with its cause.
  CHECK(far == std::set<std::string>{"32B"});
  REQUIRE(fits == 15);
  REQUIRE(others == 13);
  CHECK(fitted / fits < 0.03);
  CHECK(held_out / others < 0.04);
}

// Prints the table of docs/benchmarks/2026-11-30-forecast.md: test_command "[.rows]".
TEST_CASE("the rows of published tables as Markdown", "[.rows]") {
  for (const auto& row : published_rows(source_dir())) {
    const auto step = layout_of(row);
    const auto found = forecast_of(row, step);
    std::printf("| %s | %s%s | %d | %d | %.2f | %.2f | %+.1f %% | %.1f %% |\n",
                row.table.c_str(),
                row.name.c_str(),
                row.calibrates ? ", calibrates"
                : row.fitted   ? ""
                               : ", held out",
                int(step.micro),
                int(step.chunks.size()) / step.pipeline,
                row.seconds,
                found.seconds,
                100 * (found.seconds / row.seconds - 1),
                100 * found.bubble / found.seconds);
  }
}

TEST_CASE("every second row of a table is held out of the fit", "[forecast]") {
  std::string table;
  bool fitted = false;
  for (const auto& row : published_rows(source_dir())) {
    INFO(row.table << " " << row.name);
    CHECK(row.fitted == (row.table != table || !fitted));
    table = row.table;
    fitted = row.fitted;
  }
}

TEST_CASE("published rows have the step time that their source implies", "[forecast]") {
  const auto rows = published_rows(source_dir());
  // Section 5.1 of the paper: 84 days for 450 billion tokens of the model with 1008 billion
  // parameters on 3072 devices.
  const auto largest = std::ranges::find(rows, "1008.0B", &published_row::name);
  REQUIRE(largest != rows.end());
  const double steps = 450e9 / (3072.0 * 2048);
  CHECK(std::abs(steps * largest->seconds / (84 * 86400.0) - 1) < 0.02);
}

TEST_CASE("the estimate without a plan agrees with the simulated one", "[forecast]") {
  for (const auto& row : published_rows(source_dir())) {
    INFO(row.table << " " << row.name);
    const auto step = layout_of(row);
    const double estimated
        = rt::estimate_step(rt::gpt_outline(row.model), step, row.cluster).seconds;
    CHECK(std::abs(estimated / forecast_of(row, step).seconds - 1) < 0.05);
  }
}
