// Tests of which cuDNN plan serves an operation, and of how a trial reports missing plans.

#include "kernels/cudnn/attention_service.hpp"
#include "tests/kernels_cudnn/shapes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

using namespace troupe::kernels;
using namespace troupe::kernels::cudnn;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// Empty: the forward pass.
using kind = std::optional<dq_sum>;

constexpr device_kind old_hopper = {9, 91900}, new_hopper = {9, 92500}, ampere = {8, 92500};
constexpr const char* no_engine = "cuDNN has no engine for the graph: none is known";

const std::vector<kind> every_kind
    = {std::nullopt, dq_sum::at_once, dq_sum::in_order, dq_sum::any_order};

/// cuDNN on an H200 without plans of some kinds; records the requested kinds.
struct lacking {
  std::vector<kind> asked = {}, absent;
  std::map<kind, const char*> reasons = {};  ///< default: no_engine
  kind fails = {};                           ///< the kind that throws device_failure; empty: none
  attention_service service;

  lacking(const device_kind& on, const std::vector<kind>& kinds)
      : absent(kinds),
        service(on,
                properties_from_text(h200),
                [this](const attention_problem& x, bool backward, const descriptor& to) {
                  return make(x, backward, to);
                }) {}
  lacking(const lacking&) = delete;
  lacking& operator=(const lacking&) = delete;

  plan make(attention_problem x, bool backward, const descriptor& to) {
    const kind wanted = backward ? kind(x.sum) : std::nullopt;
    asked.push_back(wanted);
    if (fails && fails == wanted)
      throw device_failure("out of memory");
    if (std::find(absent.begin(), absent.end(), wanted) != absent.end())
      throw not_supported(reasons.contains(wanted) ? reasons[wanted] : no_engine);
    if (wanted == dq_sum::in_order && cudnnGetVersion() < new_hopper.version)
      x.sum = dq_sum::at_once;  // replaces a plan that only newer versions have
    return make_plan(x, backward, to);
  }
};

attention_shape any_bits(const sizes& x) {
  auto out = shape_of(x);
  out.same_bits = false;
  return out;
}

}  // namespace

TEST_CASE("a trial prepares each kind of plan that training may need", "[cudnn][attention]") {
  lacking all(new_hopper, {});
  CHECK(all.service.trial().empty());
  CHECK(all.asked == every_kind);
  const std::vector<kind> before = {std::nullopt, dq_sum::at_once, dq_sum::any_order};
  for (const auto& on : {old_hopper, ampere}) {
    lacking none(on, every_kind);
    none.service.trial();
    CHECK(none.asked == before);  // the kinds of this version
  }
}

TEST_CASE("a trial names the missing plan, the reason and the replacement", "[cudnn][attention]") {
  lacking x(new_hopper, {dq_sum::in_order, dq_sum::any_order});
  x.reasons = {{dq_sum::any_order, "there is no faster one"}};
  const std::string other = std::string(" cannot be made ready: ") + no_engine;
  CHECK(x.service.trial()
        == "the backward pass of long sequences (summed in order)" + other
               + "; attention uses troupe's own kernels, which are slower\n"
                 "the faster backward pass (of other bits each time) cannot be made ready: there is"
                 " no faster one; cuDNN's usual kernel computes, with the same bits each"
                 " time");
}

TEST_CASE("a trial keeps different replacements apart if the reason is the same",
          "[cudnn][attention]") {
  lacking x(new_hopper, {dq_sum::in_order, dq_sum::any_order});
  CHECK_THAT(x.service.trial(),
             ContainsSubstring("(summed in order) cannot be made ready: cuDNN has no engine for the"
                               " graph: none is known; attention uses troupe's own kernels")
                 && ContainsSubstring("cuDNN's usual kernel computes"));
}

TEST_CASE("a trial reports each reason separately, including other failures",
          "[cudnn][attention]") {
  lacking x(new_hopper, every_kind);
  x.reasons = {{std::nullopt, "one"}, {dq_sum::at_once, "two"}, {dq_sum::any_order, "four"}};
  x.fails = dq_sum::in_order;
  const std::string own = "; attention uses troupe's own kernels, which are slower";
  CHECK(x.service.trial()
        == "the forward pass cannot be made ready: one" + own
               + "\nthe backward pass cannot be made ready: two" + own
               + "\nthe backward pass of long sequences (summed in order) cannot be made ready: out"
                 " of memory"
               + own
               + "\nthe faster backward pass (of other bits each time) cannot be made ready: four"
               + own);
}

TEST_CASE("plans missing for the same reason share one line", "[cudnn][attention]") {
  CHECK(lacking(old_hopper, every_kind).service.trial()
        == "the forward pass, the backward pass and the faster backward pass (of other bits each"
           " time) cannot be made ready: "
               + std::string(no_engine) + "; attention uses troupe's own kernels, which are slower");
}

TEST_CASE("a trial reports that an older library lacks sums in order", "[cudnn][attention]") {
  attention_service here({9, new_hopper.version}, properties_from_text(h200));
  const auto said = here.trial();
  if (cudnnGetVersion() >= new_hopper.version)
    CHECK(said.empty());
  else
    CHECK_THAT(said,
               StartsWith("the backward pass of long sequences (summed in order) cannot be made"
                          " ready: cuDNN has no engine for the graph: "));
}

TEST_CASE("without a faster backward pass cuDNN's usual one is used and reported",
          "[cudnn][attention]") {
  lacking x(old_hopper, {dq_sum::any_order});
  const auto shape = any_bits({2, 4, 4, 512, 64});
  const auto found = x.service.find(shape, false, true, backward_workspace);
  REQUIRE(found.by);
  CHECK(found.by->facts().same_bits);
  CHECK(found.split.problem.sum == dq_sum::at_once);
  CHECK(found.sums == 0);
  CHECK(x.service.missing().empty());
  CHECK(x.service.fallback()
        == std::string("the faster backward pass (of other bits each time) cannot be made"
                       " ready: ")
               + no_engine);
  auto usual = shape;
  usual.same_bits = true;
  CHECK(x.service.find(usual, false, true, backward_workspace).by == found.by);
  CHECK(x.service.find(shape, false, true, backward_workspace).by == found.by);
  CHECK(x.asked == std::vector<kind>{dq_sum::any_order, dq_sum::at_once});  // once each
}

TEST_CASE("an available faster backward pass is used without a report", "[cudnn][attention]") {
  lacking x(old_hopper, {});
  const auto found = x.service.find(any_bits({2, 4, 4, 512, 64}), false, true, backward_workspace);
  REQUIRE(found.by);
  CHECK(found.split.problem.sum == dq_sum::any_order);
  CHECK(found.sums >= sizeof(float) * 2 * 4 * 512 * 64);
  CHECK(x.asked == std::vector<kind>{dq_sum::any_order});
  CHECK(x.service.fallback().empty());
  CHECK(x.service.missing().empty());
}

TEST_CASE("a usual backward pass that replaces a faster one keeps its memory bound",
          "[cudnn][attention]") {
  const auto long_one = any_bits({1, 8, 4, 32768, 128});
  lacking none(old_hopper, {dq_sum::any_order});
  CHECK(none.service.find(long_one, false, true, backward_workspace).by == nullptr);
  CHECK(none.asked == std::vector<kind>{dq_sum::any_order});
  CHECK_THAT(none.service.missing(), StartsWith("the faster backward pass"));
  CHECK(none.service.fallback().empty());
  lacking both(new_hopper, {dq_sum::any_order, dq_sum::in_order});
  CHECK(both.service.find(long_one, false, true, backward_workspace).by == nullptr);
  CHECK(both.asked == std::vector<kind>{dq_sum::any_order, dq_sum::in_order});
  CHECK_THAT(both.service.missing(),
             StartsWith("the faster backward pass")
                 && ContainsSubstring("; the backward pass of long sequences"));
}

TEST_CASE("the first missing plan that was needed is named with its pass", "[cudnn][attention]") {
  lacking x(old_hopper, {std::nullopt, dq_sum::at_once});
  const auto shape = shape_of({2, 4, 4, 128, 64});
  CHECK(x.service.find(shape, true, false, backward_workspace).by == nullptr);
  CHECK(x.service.find(shape, true, true, backward_workspace).by == nullptr);
  CHECK_THAT(x.service.missing(), StartsWith("the forward pass cannot be made ready: "));
  auto packed = shape;
  packed.uniform = false;  // cuDNN should not serve this shape
  lacking y(old_hopper, {std::nullopt});
  CHECK(y.service.find(packed, true, false, backward_workspace).by == nullptr);
  CHECK(y.service.missing().empty());
}
