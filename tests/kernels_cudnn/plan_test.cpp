// Plans of attention for a device that is not here: cuDNN recognises the graphs, finds engines for
// an H200, and compiles their kernels. That they compute what they should only a device shows.

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
  const auto x = GENERATE(sizes{8, 12, 12, 1024, 64},                 // GPT-2
                          sizes{1, 32, 8, 2048, 128},                 // Llama-3
                          sizes{4, 16, 4, 512, 128, false},           // groups, not fused
                          sizes{2, 3, 3, 77, 64},                     // odd
                          sizes{3, 4, 4, 256, 64, true, false},       // not causal
                          sizes{2, 4, 4, 512, 64, true, true, 100});  // a window
  const bool half = x.H % 2 == 1;  // the odd one; types differ in nothing else
  const auto shape = shape_of(x);
  INFO("S " << x.S << " H " << x.H << " G " << x.G << " T " << x.T << " D " << x.D);
  REQUIRE(sayable(shape));
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
}

TEST_CASE("what cuDNN has no engine for is served by nobody there", "[cudnn][attention]") {
  auto problem = split_of(shape_of({2, 4, 4, 128, 64}), false, false).problem;
  problem.D = 1000;  // a head size that none has
  CHECK(plans().find(problem, true) == nullptr);
  CHECK(plans().find(problem, true) == nullptr);
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

TEST_CASE("launches of a plan touch every head of every row once, where it lies",
          "[cudnn][attention]") {
  const auto x = GENERATE(sizes{3, 4, 4, 5, 8},
                          sizes{2, 6, 2, 3, 8},
                          sizes{2, 6, 3, 3, 8},
                          sizes{5, 6, 2, 3, 8},
                          sizes{3, 6, 1, 2, 8},
                          sizes{3, 6, 2, 2, 8, false},
                          sizes{1, 32, 8, 8192, 16},    // cut by groups
                          sizes{2, 12, 12, 8192, 16});  // cut by heads
  const auto a = shape_of(x);
  const std::int64_t per_group = x.H / x.G;
  const auto split = split_of(a, false, true);
  const auto& p = split.problem;
  std::set<std::array<std::int64_t, 4>> wanted, found;
  const std::int64_t rows[] = {0, x.T - 1};
  for (std::int64_t s = 0; s < x.S; ++s) {
    for (std::int64_t h = 0; h < x.H; ++h) {
      for (const std::int64_t t : rows) {
        const std::int64_t g = h / per_group, row = s * x.T + t;
        wanted.insert({row * a.query_row + g * a.query_group + h % per_group * x.D,
                       row * a.key_row + g * a.key_group,
                       (row * x.H + h) * x.D,
                       row * x.H + h});
      }
    }
  }
  std::size_t touched = 0;
  for (std::int64_t s = 0; s < split.sequences; ++s) {
    for (std::int64_t g = 0; g < split.groups; ++g) {
      const auto from = offsets_of(a, s, g);
      for (std::int64_t b = 0; b < p.B; ++b) {
        for (std::int64_t h = 0; h < p.H; ++h) {
          for (const std::int64_t t : rows) {
            const auto at = [&](const head_strides& by, std::int64_t head) {
              return b * by.batch + head * by.head + t * by.row;
            };
            found.insert({from.q + at(p.q, h),
                          from.k + at(p.k, h / (p.H / p.G)),
                          from.o + at(p.o, h),
                          from.lse + at(p.lse, h)});
            ++touched;
          }
        }
      }
    }
  }
  CHECK(found == wanted);
  CHECK(touched == std::size_t(x.S * x.H * 2));
  CHECK(2 * p.B * p.H * ((p.T + 127) / 128 * 128) * ((p.S + 127) / 128 * 128)
        <= std::max<std::int64_t>(backward_workspace, 2 * per_group * x.T * x.T));
}
