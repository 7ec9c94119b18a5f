// The scripts in examples/schedules/.

#include "runtime/schedule/check.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/simulate.hpp"
#include "runtime/script/schedule_script.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace troupe::runtime;

namespace {

schedule_script shipped(const std::string& name) {
  const auto path
      = std::filesystem::path(troupe::tests::source_dir()) / "examples/schedules" / name;
  std::ifstream in(path);
  REQUIRE(in.is_open());
  return {name, {std::istreambuf_iterator<char>(in), {}}};
}

}  // namespace

TEST_CASE("1f1b.lua and zb_h1.lua equal the built-in schedules", "[script]") {
  const auto same = [](const char* file, const char* name) {
    const auto script = shipped(file);
    for (const int ranks : {1, 2, 3, 4, 8, 13})
      for (const int microbatches : {1, 2, 3, 4, 7, 8, 24, 64}) {
        const auto wanted = generate(name, {.ranks = ranks, .microbatches = microbatches});
        auto x = script.make_plan(ranks, microbatches);
        x.name = wanted.name;
        CHECK(x == wanted);
      }
  };
  same("1f1b.lua", "1f1b");
  same("zb_h1.lua", "zb-h1");
}

TEST_CASE("reactive.lua is sound with any durations, and holds at most as much as 1F1B",
          "[script]") {
  const auto factory = shipped("reactive.lua").behaviours();
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int microbatches : {1, 2, 5, 16})
      for (const double slow : {0.2, 1., 5.}) {
        cost_model by;
        by.costs.assign(std::size_t(ranks), {});
        by.costs.back() = {slow, slow, slow};
        by.transfer = 0.25;
        const auto x = rehearse(factory, ranks, microbatches, by);
        CHECK(validate(x).empty());
        for (const auto& rank : simulate(x, by).ranks)
          CHECK(rank.peak_chunks <= std::min(ranks, microbatches));
      }
}

TEST_CASE(
    "reactive.lua is faster than 1F1B with uneven stages, and than ZB-H1 with a slow middle stage",
    "[script]") {
  const auto factory = shipped("reactive.lua").behaviours();
  for (std::size_t slow = 0; slow < 4; ++slow) {
    cost_model by;
    by.costs.assign(4, {1, 1, 1});
    by.costs[slow] = {1.5, 1.6, 1.2};
    by.transfer = 0.2;
    const schedule_request request{.ranks = 4, .microbatches = 12};
    const auto reactive = simulate(rehearse(factory, 4, 12, by), by).makespan;
    CHECK(reactive < simulate(generate("1f1b", request), by).makespan);
    if (slow == 2)
      CHECK(reactive < simulate(generate("zb-h1", request), by).makespan);
  }
}
