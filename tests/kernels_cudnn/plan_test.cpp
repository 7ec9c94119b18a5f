// Plans of attention for a device that is not here: cuDNN recognises the graphs, finds engines for
// an H200, and compiles their kernels. That they compute what they should only a device shows.

#include "kernels/cudnn/attention_faults.hpp"
#include "kernels/cudnn/attention_plans.hpp"
#include "kernels/cudnn/attention_split.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <set>

using namespace troupe::kernels;
using namespace troupe::kernels::cudnn;

namespace {

/// As cuDNN writes the properties of a device down. Public figures of an H200.
constexpr const char* h200 = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560, "totalGlobalMem": 150754820096,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1})";

/// Of an A100.
constexpr const char* a100 = R"({
  "deviceName": "NVIDIA A100-SXM4-80GB", "deviceVer": 800, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 108, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 166912,
  "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 41943040, "totalGlobalMem": 85100000000,
  "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1})";

attention_plans& plans() {
  static attention_plans all(properties_from_text(h200));
  return all;
}

struct sizes {
  std::int64_t S, H, G, T, D;
  bool fused = true;
  bool causal = true;
  std::int32_t window = -1;
};

/// [q .. q k v] per group, or three matrices.
attention_shape shape_of(const sizes& x) {
  const std::int64_t per_group = x.H / x.G;
  const std::int64_t query_group = (x.fused ? per_group + 2 : per_group) * x.D;
  const std::int64_t key_group = x.fused ? query_group : x.D;
  return {.S = x.S,
          .H = x.H,
          .G = x.G,
          .D = x.D,
          .query_row = x.G * query_group,
          .query_group = query_group,
          .key_row = x.G * key_group,
          .key_group = key_group,
          .scale = 0.125f,
          .causal = x.causal,
          .window = x.window,
          .query_rows = x.S * x.T,
          .key_rows = x.S * x.T,
          .longest_query = x.T,
          .longest_key = x.T,
          .uniform = true};
}

}  // namespace

TEST_CASE("cuDNN makes plans of attention for an H200 where there is none", "[cudnn][attention]") {
  const auto x = GENERATE(sizes{8, 12, 12, 1024, 64},                // GPT-2
                          sizes{1, 32, 8, 2048, 128},                // Llama-3
                          sizes{4, 16, 4, 512, 128, false},          // groups, not fused
                          sizes{2, 3, 3, 77, 64},                    // odd
                          sizes{3, 4, 4, 256, 64, true, false},      // not causal
                          sizes{2, 4, 4, 512, 64, true, true, 100},  // a window
                          sizes{32, 12, 12, 1024, 64},               // GPT-2, all that fits
                          sizes{1, 40, 40, 4096, 64},                // cut by heads
                          sizes{2, 66, 6, 4096, 128},                // by odd groups
                          sizes{6, 24, 2, 4096, 128});               // by sequences of a group
  const bool half = x.H == 3;  // the odd one; types differ in nothing else
  const auto shape = shape_of(x);
  INFO("S " << x.S << " H " << x.H << " G " << x.G << " T " << x.T << " D " << x.D);
  REQUIRE(sayable(shape));
  REQUIRE(trusted(shape, true));
  const plan* const forward = plans().find(split_of(shape, half, false).problem, false);
  REQUIRE(forward);
  CHECK(forward->facts().same_bits);
  CHECK(forward->facts().workspace < (std::size_t{1} << 20));  // no T x T matrix
  const auto split = split_of(shape, half, true);
  const plan* const backward = plans().find(split.problem, true);
  REQUIRE(backward);
  CHECK(backward->facts().same_bits);
  // ds, and dk and dv of each query head.
  const auto& p = split.problem;
  const std::int64_t longest = (p.T + 127) / 128 * 128;
  CHECK(backward->facts().workspace
        <= std::size_t(2 * p.B * p.H * longest * (longest + 2 * p.D)) + (1 << 20));
  CHECK(plans().find(split.problem, true) == backward);
}

TEST_CASE("cuDNN makes plans of attention for an A100 where there is none", "[cudnn][attention]") {
  attention_plans there(properties_from_text(a100));
  const auto shape = shape_of({8, 12, 12, 1024, 64});
  CHECK(there.find(split_of(shape, false, false).problem, false));
  CHECK(there.find(split_of(shape, false, true).problem, true));
  CHECK(there.missing().empty());
}

TEST_CASE("backward passes that a version computes wrongly on an A100 are not asked of it",
          "[cudnn][attention]") {
  CHECK(backward_fault(8, 91900).find("before 9.26") != std::string::npos);
  CHECK(backward_fault(8, 92600).empty());
  CHECK(backward_fault(9, 91900).empty());
  attention_plans there(properties_from_text(a100), backward_fault(8, 91900));
  const auto shape = shape_of({8, 12, 12, 1024, 64});
  CHECK(there.find(split_of(shape, false, false).problem, false));
  CHECK(there.missing().empty());
  CHECK(there.find(split_of(shape, false, true).problem, true) == nullptr);
  CHECK(there.missing() == backward_fault(8, 91900));
}

TEST_CASE("shapes that cuDNN computes wrongly are not asked of it", "[cudnn][attention]") {
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
  CHECK_FALSE(trusts(true, 78, 77, true));  // whose last query sees behind the last key's tile
  CHECK(trusts(true, 78, 77, false));
  CHECK_FALSE(trusts(false, 64, 192, true));
  CHECK(trusts(false, 64, 192, false));
  CHECK(trusts(false, 64, 256, true));
}

TEST_CASE("an engine whose code cannot be compiled is refused, and nothing else that fails inside",
          "[cudnn][attention]") {
  CHECK(is_refusal(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING));
  CHECK(is_refusal(CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED));
  CHECK_FALSE(is_refusal(CUDNN_STATUS_INTERNAL_ERROR));
  CHECK_FALSE(is_refusal(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED));
  CHECK_FALSE(is_refusal(CUDNN_STATUS_EXECUTION_FAILED));
}

TEST_CASE("what cuDNN has no engine for is served by nobody there", "[cudnn][attention]") {
  auto problem = split_of(shape_of({2, 4, 4, 128, 64}), false, false).problem;
  problem.D = 1000;  // a head size that none has
  attention_plans there(properties_from_text(h200));
  CHECK(there.missing().empty());
  CHECK(there.find(problem, true) == nullptr);
  const auto why = there.missing();
  CHECK(why.find("cuDNN has no engine for the graph: ") == 0);
  problem.D = 1008;
  CHECK(there.find(problem, true) == nullptr);
  CHECK(there.missing() == why);  // the first
}

TEST_CASE("what cuDNN cannot say is not asked of it", "[cudnn][attention]") {
  const auto good = shape_of({2, 4, 4, 128, 64});
  CHECK(sayable(good));
  const auto changed = [&](auto change) {
    auto out = good;
    change(out);
    return sayable(out);
  };
  CHECK_FALSE(changed([](auto& a) { a.uniform = false; }));
  CHECK_FALSE(changed([](auto& a) { a.p_drop = 0.1f; }));
  CHECK_FALSE(changed([](auto& a) { a.D = 60; }));
  CHECK_FALSE(changed([](auto& a) { a.D = 136; }));
  CHECK_FALSE(changed([](auto& a) { a.query_row += 4; }));
  CHECK_FALSE(changed([](auto& a) { a.key_group += 4; }));
  CHECK_FALSE(changed([](auto& a) {  // queries that see no key
    a.window = 5;
    a.longest_key = 64;
  }));
}

namespace {

/// What a head of a row is: where it lies in q, k, o and lse.
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
                    row * a.H + h});
      }
    }
  }
  return out;
}

/// Of one launch.
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
                       from.lse + at(p.lse, h)});
      }
    }
  }
  return out;
}

std::int64_t square_of(const attention_problem& p) {
  return 2 * p.B * p.H * ((p.T + 127) / 128 * 128) * ((p.S + 127) / 128 * 128);
}

}  // namespace

TEST_CASE("launches of a plan touch every head of every row once, where it lies and as aligned",
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
    const auto split = split_of(a, false, true, heads * of_a_head);
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

TEST_CASE("a launch of a backward pass takes as much as there is room for", "[cudnn][attention]") {
  const auto launches = [](const sizes& x) {
    const auto split = split_of(shape_of(x), false, true);
    return std::pair(split.sequences * split.groups, split.problem.B * split.problem.H);
  };
  using both = std::pair<std::int64_t, std::int64_t>;       // launches, heads of each
  CHECK(launches({1, 32, 8, 4096, 128}) == both{1, 32});    // Llama-3: exactly all
  CHECK(launches({32, 12, 12, 1024, 64}) == both{1, 384});  // GPT-2
  CHECK(launches({2, 16, 16, 4096, 128}) == both{1, 32});
  CHECK(launches({4, 16, 16, 4096, 128}) == both{2, 32});
  CHECK(launches({1, 40, 40, 4096, 128}) == both{2, 20});
  CHECK(launches({1, 64, 8, 4096, 128}) == both{2, 32});
  CHECK(launches({6, 24, 2, 4096, 128}) == both{6, 24});
  CHECK(launches({1, 12, 12, 32768, 64}) == both{12, 1});  // nothing is smaller than a head
}
