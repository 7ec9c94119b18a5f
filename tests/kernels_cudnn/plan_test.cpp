// Tests of attention plans without a device: cuDNN recognises the graphs, finds engines for an H200
// and compiles their kernels. Their results can be tested only on a device.

#include "kernels/cudnn/attention_faults.hpp"
#include "kernels/cudnn/attention_plans.hpp"
#include "kernels/cudnn/attention_split.hpp"
#include "tests/kernels_cudnn/shapes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <set>

using namespace troupe::kernels;
using namespace troupe::kernels::cudnn;
using namespace troupe::tests;

namespace {

/// A Hopper device with the installed cuDNN; below, other devices with an older and a newer
/// version.
device_kind hopper() {
  return {9, cudnnGetVersion()};
}
constexpr device_kind ampere = {8, 91900}, old_hopper = {9, 91900}, new_hopper = {9, 92500};

attention_plans& plans() {
  static attention_plans all(properties_from_text(h200));
  return all;
}

}  // namespace

TEST_CASE("cuDNN makes attention plans for an H200 without the device", "[cudnn][attention]") {
  const auto x = GENERATE(sizes{8, 12, 12, 1024, 64},                // GPT-2
                          sizes{1, 32, 8, 2048, 128},                // Llama-3
                          sizes{4, 16, 4, 512, 128, false},          // groups, not fused
                          sizes{2, 3, 3, 77, 64},                    // odd
                          sizes{3, 4, 4, 256, 64, true, false},      // not causal
                          sizes{2, 4, 4, 512, 64, true, true, 100},  // a window
                          sizes{32, 12, 12, 1024, 64},               // GPT-2, largest that fits
                          sizes{1, 40, 40, 4096, 64},                // cut by heads
                          sizes{2, 66, 6, 4096, 128},                // by odd groups
                          sizes{6, 24, 2, 4096, 128},                // by sequences
                          sizes{2, 4, 4, 512, 136},                  // large heads
                          sizes{2, 8, 2, 512, 256});
  const bool half = x.H == 3;  // f16 only for the odd one; the types are otherwise equal
  const auto shape = shape_of(x);
  INFO("S " << x.S << " H " << x.H << " G " << x.G << " T " << x.T << " D " << x.D);
  REQUIRE(sayable(shape, hopper(), true));
  REQUIRE(trusted(shape, true));
  const plan* const forward = plans().find(forward_split(shape, half).problem, false).by;
  REQUIRE(forward);
  CHECK(forward->facts().same_bits);
  CHECK(forward->facts().workspace < (std::size_t{1} << 20));  // no T x T matrix
  REQUIRE(dq_sum_for(shape, hopper()) == dq_sum::at_once);
  const auto split = backward_split(shape, half, dq_sum::at_once);
  const plan* const backward = plans().find(split.problem, true).by;
  REQUIRE(backward);
  CHECK(backward->facts().same_bits);
  // Memory of ds, and of dk and dv per query head.
  const auto& p = split.problem;
  const std::int64_t longest = (p.T + 127) / 128 * 128;
  CHECK(backward->facts().workspace
        <= std::size_t(2 * p.B * p.H * longest * (longest + 2 * p.D)) + (1 << 20));
  CHECK(plans().find(split.problem, true).by == backward);
}

TEST_CASE("cuDNN makes attention plans for an A100 without the device", "[cudnn][attention]") {
  attention_plans there(properties_from_text(a100));
  const auto shape = shape_of({8, 12, 12, 1024, 64});
  CHECK(there.find(forward_split(shape, false).problem, false).by);
  CHECK(there.find(backward_split(shape, false, dq_sum::at_once).problem, true).by);
  CHECK(there.find(backward_split(shape, false, dq_sum::any_order).problem, true).by);
  CHECK(there.find(forward_split(shape_of({2, 4, 4, 512, 256}), false).problem, false).by);
}

TEST_CASE("gradients without reproducible bits need no memory quadratic in the length",
          "[cudnn][attention]") {
  auto shape = shape_of(GENERATE(sizes{8, 12, 12, 1024, 64},
                                 sizes{1, 32, 8, 32768, 128},
                                 sizes{2, 8, 2, 512, 256},
                                 sizes{2, 4, 4, 77, 64, true, true, 30}));
  shape.same_bits = false;
  REQUIRE(dq_sum_for(shape, hopper()) == dq_sum::any_order);
  const auto split = backward_split(shape, false, dq_sum::any_order);
  const plan* const found = plans().find(split.problem, true).by;
  REQUIRE(found);
  // Memory of dk and dv per query head.
  const auto& p = split.problem;
  CHECK(found->facts().workspace <= std::size_t(4 * p.B * p.H * (p.S + 128) * p.D + (1 << 20)));
}

TEST_CASE("reproducible gradients are summed in order if the quadratic memory is too large",
          "[cudnn][attention]") {
  if (cudnnGetVersion() < new_hopper.version)
    SKIP("this needs the libraries of cuDNN 9.25 or later, and these are of "
         << library_version()
         << ": configure with -DTROUPE_CUDNN=FOLDER/libcudnn.so.9 (package nvidia-cudnn-cu13 of"
            " PyPI), or run this program with their folder first in LD_LIBRARY_PATH");
  const auto shape = shape_of(GENERATE(sizes{1, 32, 8, 32768, 128},
                                       sizes{2, 12, 12, 65536, 64},
                                       sizes{1, 8, 4, 32768, 128, true, true, 4095},
                                       sizes{1, 8, 4, 32768, 128, false}));
  INFO("H " << shape.H << " T " << shape.longest_query << " D " << shape.D);
  REQUIRE(dq_sum_for(shape, hopper()) == dq_sum::in_order);
  const auto split = backward_split(shape, false, dq_sum::in_order);
  const auto made = plans().find(split.problem, true);
  INFO(made.why);
  const plan* const found = made.by;
  REQUIRE(found);
  const auto& p = split.problem;
  CHECK(found->facts().workspace <= std::size_t(4 * p.B * p.H * (p.S + 128) * p.D + (1 << 20)));
}

TEST_CASE("the memory of a gradient's sum selects how it is computed", "[cudnn][attention]") {
  const auto way = [](const sizes& x, const device_kind& on, bool same_bits = true) {
    auto shape = shape_of(x);
    shape.same_bits = same_bits;
    return dq_sum_for(shape, on);
  };
  const sizes fits{1, 32, 8, 8192, 128};  // a group: 4 heads of 128 MiB
  const sizes exactly{1, 32, 4, 8192, 128}, beyond{1, 32, 4, 8193, 128};
  for (const auto& on : {ampere, old_hopper, new_hopper}) {
    CHECK(way(fits, on) == dq_sum::at_once);
    CHECK(way(exactly, on) == dq_sum::at_once);
    CHECK(way(beyond, on, false) == dq_sum::any_order);
  }
  CHECK(way(beyond, ampere) == std::nullopt);
  CHECK(way(beyond, {8, 92800}) == std::nullopt);
  CHECK(way(beyond, old_hopper) == std::nullopt);
  CHECK(way(beyond, new_hopper) == dq_sum::in_order);
}

TEST_CASE("cuDNN does not get shapes that it computes wrongly", "[cudnn][attention]") {
  const auto trusts = [](bool causal, std::int64_t T, std::int64_t S, bool backward) {
    auto a = shape_of({2, 4, 4, T, 64, true, causal});
    a.longest_key = S;
    return trusted(a, backward);
  };
  CHECK_FALSE(trusts(true, 1, 128, false));
  CHECK_FALSE(trusts(true, 128, 1, false));
  CHECK(trusts(true, 2, 2, true));
  CHECK(trusts(true, 77, 77, true));
  CHECK(trusts(true, 64, 77, true));
  CHECK_FALSE(trusts(true, 78, 77, true));  // the last query is beyond the tile of the last key
  CHECK(trusts(true, 78, 77, false));
  CHECK_FALSE(trusts(false, 64, 192, true));
  CHECK(trusts(false, 64, 192, false));
  CHECK(trusts(false, 64, 256, true));
}

TEST_CASE("only missing prerequisites and failed compilation count as a refusal by an engine",
          "[cudnn][attention]") {
  CHECK(is_refusal(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING));
  CHECK(is_refusal(CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED));
  CHECK_FALSE(is_refusal(CUDNN_STATUS_INTERNAL_ERROR));
  CHECK_FALSE(is_refusal(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED));
  CHECK_FALSE(is_refusal(CUDNN_STATUS_EXECUTION_FAILED));
}

TEST_CASE("a graph without an engine has no plan in cuDNN", "[cudnn][attention]") {
  auto problem = forward_split(shape_of({2, 4, 4, 128, 64}), false).problem;
  problem.D = 1000;  // no engine has this head size
  attention_plans there(properties_from_text(h200));
  for (int times = 0; times < 2; ++times) {
    const auto found = there.find(problem, true);
    CHECK(found.by == nullptr);
    CHECK(found.why.find("cuDNN has no engine for the graph: ") == 0);
  }
}

TEST_CASE("cuDNN does not get shapes that its graphs cannot express", "[cudnn][attention]") {
  const auto good = shape_of({2, 4, 4, 128, 64});
  CHECK(sayable(good, old_hopper, true));
  const auto changed = [&](auto change) {
    auto out = good;
    change(out);
    return sayable(out, old_hopper, true);
  };
  CHECK_FALSE(changed([](auto& a) { a.uniform = false; }));
  CHECK_FALSE(changed([](auto& a) { a.p_drop = 0.1f; }));
  CHECK_FALSE(changed([](auto& a) { a.D = a.Dv = 60; }));
  CHECK_FALSE(changed([](auto& a) { a.D = a.Dv = 264; }));
  CHECK_FALSE(changed([](auto& a) { a.Dv = 32; }));
  CHECK_FALSE(changed([](auto& a) { a.value_row += 8; }));
  CHECK_FALSE(changed([](auto& a) { a.value_group += 8; }));
  CHECK_FALSE(changed([](auto& a) { a.query_row += 4; }));
  CHECK_FALSE(changed([](auto& a) { a.key_group += 4; }));
  CHECK_FALSE(changed([](auto& a) {  // some queries have no key
    a.window = 5;
    a.longest_key = 64;
  }));
}

TEST_CASE("cuDNN supports heads above 128 backward only on Hopper, forward everywhere",
          "[cudnn][attention]") {
  const auto large = shape_of({2, 4, 4, 128, 256});
  CHECK(sayable(large, old_hopper, true));
  CHECK_FALSE(sayable(large, ampere, true));
  CHECK(sayable(large, ampere, false));
  CHECK(sayable(shape_of({2, 4, 4, 128, 128}), ampere, true));
}

namespace {

/// The offsets of one head of one row in q, k, o and lse.
using place = std::array<std::int64_t, 4>;

std::set<place> places_of(const attention_shape& a) {
  std::set<place> out;
  const std::int64_t T = a.longest_query, per_group = a.H / a.G;
  for (std::int64_t s = 0; s < a.S; ++s) {
    for (std::int64_t h = 0; h < a.H; ++h) {
      for (const std::int64_t t : {std::int64_t{0}, T - 1}) {
        const std::int64_t g = h / per_group, row = s * T + t;
        out.insert({row * a.query_row + g * a.query_group + h % per_group * a.D,
                    row * a.key_row + g * a.key_group,
                    (row * a.H + h) * a.D,
                    lse_at(a.H, s * T, (s + 1) * T, h, row)});
      }
    }
  }
  return out;
}

/// The places of one launch.
std::vector<place> places_of(const attention_problem& p, const attention_offsets& from) {
  std::vector<place> out;
  for (std::int64_t b = 0; b < p.B; ++b) {
    for (std::int64_t h = 0; h < p.H; ++h) {
      for (const std::int64_t t : {std::int64_t{0}, p.T - 1}) {
        const auto at = [&](const head_strides& by, std::int64_t head) {
          return b * by.batch + head * by.head + t * by.row;
        };
        out.push_back({from.q + at(p.q, h),
                       from.k + at(p.k, h / (p.H / p.G)),
                       from.o + at(p.o, h),
                       from.lse + (b * p.H + h) * p.T + t});  // as cuDNN reads it
      }
    }
  }
  return out;
}

std::int64_t square_of(const attention_problem& p) {
  return 2 * p.B * p.H * ((p.T + 127) / 128 * 128) * ((p.S + 127) / 128 * 128);
}

}  // namespace

TEST_CASE("the launches of a plan cover each head of each row once, with valid alignment",
          "[cudnn][attention]") {
  const auto x = GENERATE(sizes{3, 4, 4, 5, 8},
                          sizes{6, 6, 2, 3, 8},
                          sizes{2, 6, 3, 3, 8},
                          sizes{5, 6, 2, 3, 8},
                          sizes{3, 6, 1, 2, 8},
                          sizes{4, 6, 2, 2, 8, false},
                          sizes{1, 30, 6, 2, 8},
                          sizes{2, 12, 12, 2, 8});
  const auto a = shape_of(x);
  const std::int64_t of_a_head = 2 * 128 * 128, per_group = x.H / x.G;
  for (const std::int64_t heads : {1, 2, 3, 4, 6, 7, 10, 12, 24, 1000}) {
    INFO("S " << x.S << " H " << x.H << " G " << x.G << " room for " << heads);
    const auto split = backward_split(a, false, dq_sum::at_once, heads * of_a_head);
    std::set<place> found;
    std::size_t touched = 0;
    for (std::int64_t i = 0; i < split.sequences; ++i) {
      for (std::int64_t j = 0; j < split.groups; ++j) {
        const auto from = offsets_of(a, split, i, j);
        CHECK(from.q * 2 % 16 == 0);
        CHECK(from.k * 2 % 16 == 0);
        CHECK(from.o * 2 % 16 == 0);
        CHECK(from.lse * 4 % row_sum_alignment == 0);
        const auto places = places_of(split.problem, from);
        found.insert(places.begin(), places.end());
        touched += places.size();
      }
    }
    CHECK(found == places_of(a));
    CHECK(touched == std::size_t(x.S * x.H * 2));
    CHECK(square_of(split.problem) <= std::max(heads, per_group) * of_a_head);
  }
}

TEST_CASE("a launch of the backward pass takes as many heads as the workspace allows",
          "[cudnn][attention]") {
  const auto launches = [](const sizes& x) {
    const auto split = backward_split(shape_of(x), false, dq_sum::at_once);
    return std::pair(split.sequences * split.groups, split.problem.B * split.problem.H);
  };
  using both = std::pair<std::int64_t, std::int64_t>;       // launches, heads of each
  CHECK(launches({1, 32, 8, 4096, 128}) == both{1, 32});    // Llama-3: uses the whole workspace
  CHECK(launches({32, 12, 12, 1024, 64}) == both{1, 384});  // GPT-2
  CHECK(launches({2, 16, 16, 4096, 128}) == both{1, 32});
  CHECK(launches({4, 16, 16, 4096, 128}) == both{2, 32});
  CHECK(launches({1, 40, 40, 4096, 128}) == both{2, 20});
  CHECK(launches({1, 64, 8, 4096, 128}) == both{2, 32});
  CHECK(launches({6, 24, 2, 4096, 128}) == both{6, 24});
  CHECK(launches({1, 12, 12, 16384, 64}) == both{6, 2});
  CHECK(launches({32, 32, 8, 1024, 128}) == both{32, 32});  // groups of a sequence
  const auto in_order = backward_split(shape_of({2, 16, 16, 65536, 128}), false, dq_sum::in_order);
  CHECK(in_order.problem.B * in_order.problem.H == 32);  // 32 MiB per head: the whole workspace
}
