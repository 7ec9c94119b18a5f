// The steps that a dead run committed after a checkpoint.

#include "runtime/state/ledger_beyond.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <variant>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

training_position at(std::uint64_t iteration) {
  return {.iteration = iteration, .consumed = 8 * iteration};
}

ledger::told step(std::uint64_t number, std::uint64_t iteration) {
  return {number,
          step_report{.iteration = iteration,
                      .consumed_samples = 8 * iteration,
                      .global_batch_size = 8,
                      .state = {iteration, 1}}};
}

/// The ledger of a run that started after iteration 10 and saved iteration 12.
std::vector<ledger_record> left() {
  std::vector<ledger_record> out = {ledger::restarted{{1, "supervisor", 10}},
                                    ledger::succeeded{1},
                                    ledger::begun{at(10)},
                                    ledger::job{"identity", 2},
                                    ledger::keepers{{1, 0}},
                                    ledger::avoided{1, 0}};
  std::uint64_t told = 0;
  for (std::uint64_t n = 11; n <= 17; ++n) {
    out.emplace_back(ledger::committed{at(n), {n, 1}});
    out.emplace_back(step(++told, n));
    if (n % 2 == 0)
      out.emplace_back(ledger::position{at(n), true});
    if (n == 12)
      out.emplace_back(ledger::saved{12});
    if (n == 15)
      out.emplace_back(ledger::told{++told, run_event{.iteration = 15, .kind = "restart"}});
  }
  out.emplace_back(ledger::replayed{15, {15, 1}});
  out.emplace_back(ledger::validated{16});
  out.emplace_back(ledger::restarted{{2, "process:1", 16}});
  out.emplace_back(ledger::drained{"Ctrl-C"});
  return out;
}

template <class Record>
std::size_t count(const std::vector<ledger_record>& all) {
  return std::size_t(std::count_if(
      all.begin(), all.end(), [](const auto& x) { return std::holds_alternative<Record>(x); }));
}

}  // namespace

TEST_CASE("COLD-2: a ledger cut at a checkpoint has each later step once", "[runtime][trainer]") {
  const auto found = beyond(left(), at(12));
  CHECK(found.complaint.empty());
  CHECK(found.newest == 17);
  CHECK(found.stored == std::vector<std::uint64_t>{14, 16});
  CHECK_FALSE(found.saved);
  REQUIRE(found.of);
  CHECK(found.of->identity == "identity");
  CHECK(found.of->processes == 2);
  CHECK(is_whole(found.records));
  CHECK(complaints_of(found.records).empty());
  CHECK(count<ledger::committed>(found.records) == 5);
  CHECK(count<ledger::told>(found.records) == 6);
  CHECK(count<ledger::validated>(found.records) == 1);
  CHECK(count<ledger::succeeded>(found.records) == 1);
  for (const auto n : {count<ledger::restarted>(found.records),
                       count<ledger::drained>(found.records),
                       count<ledger::keepers>(found.records),
                       count<ledger::avoided>(found.records),
                       count<ledger::replayed>(found.records),
                       count<ledger::saved>(found.records)})
    CHECK(n == 0);
}

TEST_CASE("a cut ledger has the intervals of commands, and later learning rates",
          "[runtime][trainer]") {
  auto all = left();
  const auto add = [&all](std::uint64_t step, const run_command& what) {
    all.emplace_back(ledger::commanded{.step = step, .what = what, .factor = 0.5});
  };
  add(11, commands::save_interval{4});
  add(12, commands::eval_interval{3});
  add(13, commands::learning_rate{1e-4});
  add(14, commands::pause{});
  add(15, commands::stop_after{20});
  add(18, commands::learning_rate{2e-4});
  const auto kept_after = [&all](std::uint64_t start) {
    const auto cut = beyond(all, at(start));
    std::vector<std::uint64_t> steps;
    for (const auto& x : cut.records)
      if (const auto* const one = std::get_if<ledger::commanded>(&x))
        steps.push_back(one->step);
    return steps;
  };
  CHECK(kept_after(12) == std::vector<std::uint64_t>{11, 12, 13, 18});
  CHECK_FALSE(beyond(all, at(12)).changes_rate_before);
  CHECK(kept_after(14) == std::vector<std::uint64_t>{11, 12, 18});
  CHECK(beyond(all, at(14)).changes_rate_before);
  CHECK(beyond(all, at(14)).complaint.empty());
}

TEST_CASE("a cut ledger can be cut again", "[runtime][trainer]") {
  const auto again = beyond(beyond(left(), at(10)).records, at(12));
  CHECK(again.complaint.empty());
  CHECK(again.stored == std::vector<std::uint64_t>{14, 16});
  CHECK(complaints_of(again.records).empty());
}

TEST_CASE("a newer complete checkpoint than the chosen one is reported", "[runtime][trainer]") {
  CHECK(beyond(left(), at(11)).saved == 12U);
}

TEST_CASE("there are no stored steps beyond the newest local one", "[runtime][trainer]") {
  CHECK(beyond(left(), at(16)).stored.empty());
}

TEST_CASE("LEDGER-2: a ledger with a step that ran again with another state is refused",
          "[runtime][trainer]") {
  auto all = left();
  all.emplace_back(ledger::replayed{15, {15, 2}});
  all.emplace_back(ledger::replayed{15, {15, 1}});
  CHECK_THAT(beyond(all, at(12)).complaint, ContainsSubstring("step 15 was computed twice"));
}

TEST_CASE("LEDGER-1: a ledger with a missing step is refused", "[runtime][trainer]") {
  auto all = left();
  std::erase_if(all, [](const ledger_record& x) {
    const auto* const step = std::get_if<ledger::committed>(&x);
    const auto* const told = std::get_if<ledger::told>(&x);
    const auto* const report = told != nullptr ? std::get_if<step_report>(&told->fact) : nullptr;
    return (step != nullptr && step->at.iteration == 14)
           || (report != nullptr && report->iteration == 14);
  });
  CHECK_THAT(beyond(all, at(12)).complaint,
             ContainsSubstring("iteration 15 was committed after iteration 13"));
  CHECK(beyond(all, at(14)).complaint
        == "its ledger is of another training: it does not know iteration 14");
}

TEST_CASE("COLD-1: a ledger of another training is refused", "[runtime][trainer]") {
  CHECK_THAT(beyond(left(), at(9)).complaint, ContainsSubstring("does not know iteration 9"));
  auto other = at(12);
  other.consumed += 8;
  CHECK_THAT(beyond(left(), other).complaint, ContainsSubstring("96 samples after iteration 12"));
}
