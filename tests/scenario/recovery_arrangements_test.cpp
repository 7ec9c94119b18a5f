// Deaths that need special arrangements: skipped steps, and a first step after a resume. All
// arrangements with every actor and moment: tests/matrix/deaths.cpp.

#include "tests/matrix/mortals.hpp"
#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <set>
#include <string>

using namespace troupe;
using tests::arrangement;

TEST_CASE("after a death during the adjustment of a loss scale the same steps are skipped",
          "[scenario][recovery][unsanitized]") {
  const bool distributed = GENERATE(false, true);
  const arrangement what{distributed ? "fp16 distributed" : "fp16", matrix::scaled(distributed)};
  const auto& calm = tests::undisturbed(what);
  const int skipped = calm.steps.back()["skipped_iterations"];
  REQUIRE(skipped > 1);
  REQUIRE(skipped < 5);
  REQUIRE(calm.steps.at(0)["loss_scale"] != calm.steps.at(5)["loss_scale"]);
  // During the skipped steps, and after.
  const std::string death = GENERATE("lane:0.0@1:weight-gradient",
                                     "lane:1.1@2:reduce",
                                     "replica:0@2:decided",
                                     "lane:0.1@1:updated",
                                     "stage:1.0@2:acknowledged",
                                     "lane:0.0@5:updated",
                                     "supervisor@2:acknowledged",
                                     "node@3:vote");
  CAPTURE(what.name, death);
  tests::check_survives(what, death);
}

TEST_CASE("a resumed run survives deaths in its first step", "[scenario][recovery]") {
  const tests::scratch_folder folder(tests::place_in_memory());
  const auto what = matrix::resumed(folder);
  REQUIRE(tests::undisturbed(what).iterations == std::vector<std::uint64_t>{2, 3, 4, 5, 6});
  const std::string death = GENERATE("lane:0.1@2:restore",
                                     "stage:0.1@2:forward",
                                     "lane:1.0@2:updated",
                                     "node@2:reduce",
                                     "supervisor@2:acknowledged");
  CAPTURE(death);
  tests::check_survives(what, death);
}

TEST_CASE("the selection of deaths covers every actor and moment in each arrangement",
          "[scenario][recovery]") {
  const tests::scratch_folder folder(tests::place_in_memory());
  const auto moments = runtime::moment_names().size();
  const auto all = matrix::mortal_arrangements(folder);
  for (std::size_t number = 0; number < all.size(); ++number) {
    CAPTURE(all[number].name);
    const auto whos = matrix::mortals(all[number].job);
    std::set<std::size_t> dead, come;
    for (std::size_t who = 0; who < whos.size(); ++who)
      for (std::size_t moment = 0; moment < moments; ++moment) {
        const auto death = matrix::death_of(whos[who], runtime::moment_names()[moment], "throw", 1);
        REQUIRE(matrix::may_die(all[number].job, death));
        if (matrix::is_selected(number, whos.size(), who, moment)) {
          dead.insert(who);
          come.insert(moment);
        }
      }
    CHECK(dead.size() == whos.size());
    CHECK(come.size() == moments);
  }
}
