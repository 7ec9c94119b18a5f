// Cases beyond the operation tester (op_tester_test.cpp): the bits of rounded parameters, pieces
// against single steps, and fingerprints of the results.

#include "tests/support/device_ops.hpp"
#include "tests/support/fingerprinted.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::adamw_memory;
using tests::device_array;

namespace {

template <class Narrow>
void check_rounded(const adamw_memory<float, Narrow>& m) {
  for (std::size_t i = 0; i < m.x.size(); ++i)
    CHECK(m.rounded[i] == Narrow(m.x[i]));
}

}  // namespace

TEMPLATE_TEST_CASE("AdamW on a device rounds the parameters that it wrote",
                   "[kernels][cuda]",
                   kernels::bf16,
                   kernels::f16) {
  const std::int64_t n = GENERATE(1, 61, 2049, 10007);
  const std::size_t shift = GENERATE(0, 1);
  adamw_memory<float, TestType> m{.n = n};
  m.rounded.assign(std::size_t(n), TestType(tests::unwritten));
  tests::on_device(m, m.step(), shift);
  check_rounded(m);
}

TEMPLATE_TEST_CASE("AdamW on a device rounds to misaligned memory",
                   "[kernels][cuda]",
                   kernels::bf16,
                   kernels::f16) {
  constexpr std::int64_t n = 4100;  // more than a tile
  adamw_memory<float, TestType> m{.n = n};
  m.rounded.assign(std::size_t(n) + 1, TestType(tests::unwritten));
  auto op = m.step();
  op.rounded = m.rounded.data() + 1;
  tests::on_device(m, op);
  CHECK(m.rounded.front() == TestType(tests::unwritten));
  m.rounded.erase(m.rounded.begin());
  check_rounded(m);
}

TEMPLATE_TEST_CASE("AdamW on a device gives the same bits for many arrays and for each alone",
                   "[kernels][cuda]",
                   kernels::bf16,
                   kernels::f16) {
  const std::size_t count = GENERATE(0, 1, 7, 150);  // one launch holds about 40
  using memory = adamw_memory<float, TestType>;
  std::vector<memory> alone;
  std::vector<device_array<float>> x, m, v, dx;
  std::vector<device_array<TestType>> rounded;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t n = i == 3 ? 5003 : std::int64_t(i * 37 % 301);
    memory one{.n = n, .weight_decay = i % 2 == 0 ? 0.1f : 0.0f};
    one = tests::redrawn(one, int(i));
    one.v = memory::squares(one.v);
    if (i % 3 != 1)
      one.rounded.assign(std::size_t(n), TestType(tests::unwritten));
    x.emplace_back(one.x, i % 5 == 4 ? 1 : 0);
    m.emplace_back(one.m);
    v.emplace_back(one.v);
    dx.emplace_back(one.dx);
    rounded.emplace_back(one.rounded);
    alone.push_back(one);
  }
  std::vector<typename kernels::adamw_pieces<float>::piece> pieces;
  for (std::size_t i = 0; i < count; ++i)
    pieces.push_back({.x = x[i].data(),
                      .m = m[i].data(),
                      .v = v[i].data(),
                      .dx = dx[i].data(),
                      .rounded = rounded[i].size() > 0 ? rounded[i].data() : nullptr,
                      .n = alone[i].n,
                      .weight_decay = alone[i].weight_decay});
  memory any{.n = 1};
  const auto like = any.step();
  tests::run_on_device(kernels::adamw_pieces<float>{.pieces = pieces.data(),
                                                    .count = std::int64_t(count),
                                                    .rounded_to = like.rounded_to,
                                                    .gradient_scale = like.gradient_scale,
                                                    .rate = like.rate,
                                                    .beta1 = like.beta1,
                                                    .beta2 = like.beta2,
                                                    .eps = like.eps,
                                                    .correction1 = like.correction1,
                                                    .correction2 = like.correction2});
  for (std::size_t i = 0; i < count; ++i) {
    tests::on_device(alone[i], alone[i].step());
    CHECK(x[i].download() == alone[i].x);
    CHECK(m[i].download() == alone[i].m);
    CHECK(v[i].download() == alone[i].v);
    CHECK(rounded[i].download() == alone[i].rounded);
  }
}

// Grains: one element, odd, odd and larger than a tile, several aligned tiles, even but misaligned,
// and the default. Updates are out of place, in place, and to misaligned memory. The state has the
// same bits as without fingerprints. Grains of one element have fewer elements, because each grain
// is a block of threads. Sanitizers run the same kernels in the next test, with fewer grains.
TEST_CASE("AdamW on a device fingerprints its results in the same pass",
          "[kernels][cuda][unsanitized]") {
  const std::int64_t grain = GENERATE(1, 61, 2051, 4096, 4098, 65536);
  const std::size_t shift = GENERATE(0, 1);
  const bool beside = GENERATE(false, true);
  CAPTURE(grain, shift, beside);
  std::vector<adamw_memory<float>> some;
  for (const std::int64_t n : {0, 1, 7, 1, grain == 1 ? 301 : 5003, grain == 1 ? 130 : 9001}) {
    some.push_back(tests::redrawn(adamw_memory<float>{.n = n}, int(some.size())));
    some.back().v = adamw_memory<float>::squares(some.back().v);
  }
  auto alone = some;
  tests::fingerprinted all(some, grain);
  auto op = all.step();
  const device_array<std::uint64_t> keys(all.keys);
  device_array<std::uint64_t> results(all.results);
  std::vector<device_array<float>> there, old;
  for (auto& one : some) {
    for (auto* const array : {&one.x, &one.m, &one.v})
      old.emplace_back(*array, shift);
    for (auto* const array : {&one.x, &one.m, &one.v, &one.dx})
      there.emplace_back(beside && array != &one.dx ? std::vector<float>(array->size()) : *array,
                         shift);
  }
  for (std::size_t i = 0; i < some.size(); ++i) {
    auto& piece = all.pieces[i];
    piece.x = there[4 * i].data();
    piece.m = there[4 * i + 1].data();
    piece.v = there[4 * i + 2].data();
    piece.dx = there[4 * i + 3].data();
    piece.keys = keys.data() + (piece.keys - all.keys.data());
    if (beside)
      piece.from = {old[3 * i].data(), old[3 * i + 1].data(), old[3 * i + 2].data()};
  }
  op.fingerprints = results.data();
  tests::run_on_device(op);
  for (std::size_t i = 0; i < some.size(); ++i) {
    some[i].x = there[4 * i].download();
    some[i].m = there[4 * i + 1].download();
    some[i].v = there[4 * i + 2].download();
    tests::on_device(alone[i], alone[i].step());
    CHECK(some[i].x == alone[i].x);
    CHECK(some[i].m == alone[i].m);
    CHECK(some[i].v == alone[i].v);
  }
  CHECK(results.download() == all.expected());
}

TEST_CASE("AdamW on a device fingerprints an empty array and more arrays than one launch holds",
          "[kernels][cuda]") {
  const int count = GENERATE(1, 90);  // the first has no elements
  std::vector<adamw_memory<float>> some;
  for (int i = 0; i < count; ++i) {
    some.push_back(tests::redrawn(adamw_memory<float>{.n = i * 37 % 301}, i));
    some.back().v = adamw_memory<float>::squares(some.back().v);
  }
  tests::fingerprinted all(some, 13);
  auto op = all.step();
  const device_array<std::uint64_t> keys(all.keys);
  device_array<std::uint64_t> results(all.results);
  std::vector<device_array<float>> there;
  for (auto& one : some)
    for (auto* const array : {&one.x, &one.m, &one.v, &one.dx})
      there.emplace_back(*array);
  for (std::size_t i = 0; i < some.size(); ++i) {
    auto& piece = all.pieces[i];
    piece.x = there[4 * i].data();
    piece.m = there[4 * i + 1].data();
    piece.v = there[4 * i + 2].data();
    piece.dx = there[4 * i + 3].data();
    piece.keys = keys.data() + (piece.keys - all.keys.data());
  }
  op.fingerprints = results.data();
  tests::run_on_device(op);
  for (std::size_t i = 0; i < some.size(); ++i) {
    some[i].x = there[4 * i].download();
    some[i].m = there[4 * i + 1].download();
    some[i].v = there[4 * i + 2].download();
  }
  CHECK(results.download() == all.expected());
}
