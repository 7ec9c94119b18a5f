// Every operation of a group, compared with its definition.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>

using namespace troupe::runtime;
using namespace std::chrono_literals;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
namespace kernels = troupe::kernels;
using kernels::bf16;
using kernels::f16;

namespace {

void as_ranks(int size,
              const cancel_token& token,
              const std::function<void(communicator&, stream&)>& act) {
  const auto group = std::make_shared<local_group>(axis::tensor, size, token);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      local_communicator mine(group, r);
      stream stream(kernels::backend::cpu, 1, {});
      act(mine, stream);
    });
  for (auto& t : threads)
    t.join();
}

void planted_delay(int rank, int round) {
  const auto mixed = (std::uint32_t(rank) * 7919U + std::uint32_t(round) * 104729U) * 2654435761U;
  std::this_thread::sleep_for(std::chrono::microseconds(mixed >> 24));  // up to 255
}

/// Numbers of very different size, so that the order of the sum matters.
template <class T>
std::vector<T> addends(std::int64_t n, int which) {
  std::vector<T> out;
  for (const float x : troupe::tests::normal<float>(std::size_t(n), std::uint32_t(which)))
    out.push_back(T(x * ((out.size() + std::size_t(which)) % 3 == 0 ? 1e3F : 1e-2F)));
  return out;
}

/// The sum of all parts of all ranks in f32, in order, rounded once.
template <class T>
std::vector<T> sum_of(const std::vector<std::vector<T>>& all) {
  std::vector<T> out;
  for (std::size_t i = 0; i < all.front().size(); ++i) {
    float sum = float(all.front()[i]);
    for (std::size_t p = 1; p < all.size(); ++p)
      sum += float(all[p][i]);
    out.push_back(T(sum));
  }
  return out;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size()
         && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
std::vector<const void*> addresses(const std::vector<std::vector<T>>& of, int first, int count) {
  std::vector<const void*> out;
  for (int i = first; i < first + count; ++i)
    out.push_back(of[std::size_t(i)].data());
  return out;
}

/// n zeros for each rank.
template <class T>
std::vector<std::vector<T>> zeros(int size, std::int64_t n) {
  return {std::size_t(size), std::vector<T>(std::size_t(n))};
}

/// Uneven cuts of n elements, some of them empty.
std::vector<std::int64_t> uneven_ends(std::int64_t n, int size, std::uint32_t seed) {
  std::mt19937 rng{seed};
  std::vector<std::int64_t> out;
  for (int r = 0; r + 1 < size; ++r)
    out.push_back(rng() % 3 == 0 && !out.empty() ? out.back()
                                                 : std::int64_t(rng() % std::uint64_t(n + 1)));
  std::sort(out.begin(), out.end());
  out.push_back(n);
  return out;
}

std::int64_t begin_of(const std::vector<std::int64_t>& ends, int r) {
  return r == 0 ? 0 : ends[std::size_t(r) - 1];
}

template <class T>
void check_all_reduce(int size, int parts, std::int64_t n, bool in_place) {
  std::vector<std::vector<T>> memory;
  for (int i = 0; i < size * parts; ++i)
    memory.push_back(addends<T>(n, i));
  const auto before = memory;
  const auto expected = sum_of(memory);
  auto out = zeros<T>(size, n);
  as_ranks(size, {}, [&](communicator& group, stream& stream) {
    const int r = group.rank();
    auto& to = in_place ? memory[std::size_t(r * parts)] : out[std::size_t(r)];
    planted_delay(r, int(n));
    group.all_reduce_sum(stream, dtype_of<T>(), addresses(memory, r * parts, parts), to.data(), n);
  });
  for (int r = 0; r < size; ++r)
    for (int p = 0; p < parts; ++p) {
      const auto at = std::size_t(r * parts + p);
      const bool overwritten = in_place && p == 0;
      CHECK(same_bits(memory[at], overwritten ? expected : before[at]));
      if (!in_place)
        CHECK(same_bits(out[std::size_t(r)], expected));
    }
}

template <class T>
void check_reduce_scatter(int size, int parts, std::int64_t n, bool in_place) {
  std::vector<std::vector<T>> memory;
  for (int i = 0; i < size * parts; ++i)
    memory.push_back(addends<T>(n, i));
  const auto expected = sum_of(memory);
  const auto ends = uneven_ends(n, size, std::uint32_t(n + parts));
  auto out = zeros<T>(size, n);
  as_ranks(size, {}, [&](communicator& group, stream& stream) {
    const int r = group.rank();
    T* const to = in_place ? memory[std::size_t(r * parts)].data() + begin_of(ends, r)
                           : out[std::size_t(r)].data();
    planted_delay(r, int(n));
    group.reduce_scatter_sum(stream, dtype_of<T>(), addresses(memory, r * parts, parts), to, ends);
  });
  for (int r = 0; r < size; ++r) {
    const auto begin = begin_of(ends, r), end = ends[std::size_t(r)];
    const auto* const from
        = in_place ? memory[std::size_t(r * parts)].data() + begin : out[std::size_t(r)].data();
    CHECK(same_bits(std::vector<T>(from, from + (end - begin)),
                    std::vector<T>(expected.begin() + begin, expected.begin() + end)));
    for (auto i = end - begin; i < n && !in_place; ++i)
      REQUIRE(float(out[std::size_t(r)][std::size_t(i)]) == 0);  // unchanged
  }
}

}  // namespace

TEST_CASE("a sum has the same bits out of place and in place, in f32 and bf16", "[collective]") {
  const int size = GENERATE(range(1, 5)), parts = GENERATE(1, 3);
  const std::int64_t n = GENERATE(1, 17, 1000);
  const bool in_place = GENERATE(false, true);
  CAPTURE(size, parts, n, in_place);
  check_all_reduce<float>(size, parts, n, in_place);
  check_all_reduce<bf16>(size, parts, n, in_place);
  check_all_reduce<f16>(size, parts, n, in_place);
}

TEST_CASE("a sum in bf16 is rounded once", "[collective]") {
  // The spacing of bf16 above 1 is 2^-7. A single addition of 0.375 * 2^-7 is rounded away; the sum
  // of three is not.
  const std::vector<bf16> big(1, bf16(1.0F)), small(1, bf16(0.375F / 128));
  std::vector<float> out(4);
  as_ranks(4, {}, [&](communicator& group, stream& stream) {
    const void* const part = group.rank() == 0 ? big.data() : small.data();
    bf16 to;
    group.all_reduce_sum(stream, dtype::bf16, {&part, 1}, &to, 1);
    out[std::size_t(group.rank())] = float(to);
  });
  CHECK(out == std::vector<float>(4, 1 + 1.0F / 128));
}

TEST_CASE("each rank receives the sum of its own cut, also for uneven cuts", "[collective]") {
  const int size = GENERATE(range(1, 5)), parts = GENERATE(1, 3);
  const std::int64_t n = GENERATE(0, 1, 3, 100, 1000);
  const bool in_place = GENERATE(false, true);
  CAPTURE(size, parts, n, in_place);
  check_reduce_scatter<float>(size, parts, n, in_place);
  check_reduce_scatter<bf16>(size, parts, n, in_place);
  check_reduce_scatter<f16>(size, parts, n, in_place);
}

TEST_CASE("all_gather returns the parts in rank order", "[collective]") {
  const int size = GENERATE(range(1, 5));
  const std::int64_t n = GENERATE(0, 5, 1000);
  const bool in_place = GENERATE(false, true);
  CAPTURE(size, n, in_place);
  const auto ends = uneven_ends(n, size, std::uint32_t(n));
  std::vector<std::uint8_t> expected(std::size_t(n), 0);
  std::iota(expected.begin(), expected.end(), std::uint8_t(3));
  auto out = zeros<std::uint8_t>(size, n);
  as_ranks(size, {}, [&](communicator& group, stream& stream) {
    const int r = group.rank();
    auto& to = out[std::size_t(r)];
    const auto begin = begin_of(ends, r);
    const std::vector<std::uint8_t> mine(expected.begin() + begin,
                                         expected.begin() + ends[std::size_t(r)]);
    const std::uint8_t* from = mine.data();
    if (in_place) {
      std::copy(mine.begin(), mine.end(), to.begin() + begin);
      from = to.data() + begin;
    }
    planted_delay(r, int(n));
    group.all_gather(stream, from, to.data(), ends);
  });
  for (const auto& to : out)
    CHECK(to == expected);
}

TEST_CASE("all_to_all sends a separate part to each rank", "[collective]") {
  const int size = GENERATE(range(1, 5));
  CAPTURE(size);
  // Rank a sends a * 3 + b bytes of value 10 a + b to rank b; some send none.
  const auto bytes = [](int a, int b) { return std::int64_t(a == b ? 0 : a * 3 + b); };
  as_ranks(size, {}, [&](communicator& group, stream& stream) {
    for (int round = 0; round < 3; ++round) {
      const int me = group.rank();
      std::vector<std::uint8_t> from, expected;
      std::vector<std::int64_t> from_ends, to_ends;
      for (int r = 0; r < size; ++r) {
        from.insert(from.end(), std::size_t(bytes(me, r)), std::uint8_t(10 * me + r + round));
        expected.insert(
            expected.end(), std::size_t(bytes(r, me)), std::uint8_t(10 * r + me + round));
        from_ends.push_back(std::int64_t(from.size()));
        to_ends.push_back(std::int64_t(expected.size()));
      }
      std::vector<std::uint8_t> to(expected.size());
      planted_delay(me, round);
      group.all_to_all(stream, from.data(), from_ends, to.data(), to_ends);
      ensure(to == expected, "each rank's part has arrived");
    }
  });
}

TEST_CASE("ranks without bytes take part in gathers and exchanges", "[collective]") {
  const int size = GENERATE(range(1, 5)), full = GENERATE(range(0, 5));
  CAPTURE(size, full);
  // Rank `full` alone has bytes: r + 1 for rank r. If there is no such rank, all arrays are empty.
  std::vector<std::int64_t> gathered, sent;
  for (int r = 0; r < size; ++r) {
    gathered.push_back(r >= full ? size * (size + 1) / 2 : 0);
    sent.push_back((r + 1) * (r + 2) / 2);
  }
  as_ranks(size, {}, [&](communicator& group, stream& stream) {
    const int me = group.rank();
    const std::vector<std::uint8_t> expected(std::size_t(gathered.back()), 7);
    const auto mine = me == full ? expected : std::vector<std::uint8_t>();
    auto to = std::vector<std::uint8_t>(expected.size());
    group.all_gather(stream, mine.data(), to.data(), gathered);
    ensure(to == expected, "the bytes of the only rank have arrived");
    std::vector<std::int64_t> to_ends;
    for (int r = 0; r < size; ++r)
      to_ends.push_back(r >= full ? me + 1 : 0);
    to.assign(std::size_t(to_ends.back()), 0);
    const auto from_ends = me == full ? sent : std::vector<std::int64_t>(sent.size());
    group.all_to_all(stream, mine.data(), from_ends, to.data(), to_ends);
    ensure(to == std::vector<std::uint8_t>(to.size(), 7), "this rank's bytes have arrived");
  });
}

TEST_CASE("a broadcast copies the root's array to all ranks", "[collective]") {
  const int size = GENERATE(range(1, 5)), root = GENERATE(range(0, 4));
  if (root >= size)
    return;
  std::vector<std::vector<int>> x;
  for (int r = 0; r < size; ++r)
    x.push_back(std::vector<int>(100, r));
  as_ranks(size, {}, [&](communicator& group, stream& stream) {
    planted_delay(group.rank(), root);
    group.broadcast(stream, x[std::size_t(group.rank())].data(), 400, root);
  });
  for (const auto& array : x)
    CHECK(array == std::vector<int>(100, root));
}

TEST_CASE("COLLECTIVE-1: all ranks of a group call the same operation", "[collective][invariant]") {
  const int other = GENERATE(range(0, 3)), kind = GENERATE(range(0, 8));
  CAPTURE(other, kind);
  std::atomic<int> broken = 0;
  std::vector<std::string> said(3);
  as_ranks(3, {}, [&](communicator& group, stream& stream) {
    std::vector<float> x(16), to(64);
    const void* const part = x.data();
    const void* const two[] = {x.data(), x.data()};
    const std::vector<std::int64_t> ends{4, 8, 16}, fewer{4, 8, 12}, elsewhere{4, 12, 16};
    const bool me = group.rank() == other;
    try {
      switch (kind) {
        case 0:
          me ? group.barrier()
             : group.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), 16);
          break;
        case 1:
          group.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), me ? 15 : 16);
          break;
        case 2:
          group.all_reduce_sum(stream, dtype::f32, std::span(two, me ? 2U : 1U), to.data(), 16);
          break;
        case 3:
          group.reduce_scatter_sum(stream, dtype::f32, {&part, 1}, to.data(), me ? fewer : ends);
          break;
        case 7:
          group.all_gather(stream, x.data(), to.data(), me ? elsewhere : ends);
          break;
        case 4:
          group.broadcast(stream, x.data(), 64, me ? 1 : 0);
          break;
        case 5:
          group.all_reduce_sum(stream, me ? dtype::bf16 : dtype::f32, {&part, 1}, to.data(), 16);
          break;
        default:
          group.broadcast(stream, x.data(), me ? 60 : 64, 0);
          break;
      }
    } catch (const broken_promise& failure) {
      ++broken;
      said[std::size_t(group.rank())] = failure.what();
    }
  });
  CHECK(broken == 3);
  for (const auto& text : said)
    CHECK_THAT(text, StartsWith("COLLECTIVE-1: along t"));
}

TEST_CASE("COLLECTIVE-2: equal cuts have no remainder", "[collective][invariant]") {
  CHECK(equal_ends(12, 4) == std::vector<std::int64_t>{3, 6, 9, 12});
  CHECK(equal_ends(0, 2) == std::vector<std::int64_t>{0, 0});
  CHECK_THROWS_MATCHES(
      equal_ends(13, 4), broken_promise, MessageMatches(StartsWith("COLLECTIVE-2")));
}

TEST_CASE("COLLECTIVE-3: sums take f32, bf16 and f16", "[collective][invariant]") {
  stream stream(kernels::backend::cpu, 1, {});
  std::vector<std::int32_t> x(4);
  const void* const part = x.data();
  const auto group = alone(axis::data);
  for (const auto type : {dtype::i32, dtype::u64})
    CHECK_THROWS_MATCHES(group->all_reduce_sum(stream, type, {&part, 1}, x.data(), 2),
                         broken_promise,
                         MessageMatches(StartsWith("COLLECTIVE-3")));
}

TEST_CASE("COLLECTIVE-4: a rank sends as much as the other expects", "[collective][invariant]") {
  // The rank with the wrong count throws; the end of the generation releases the other.
  const cancel_token token;
  std::atomic<int> broken = 0, released = 0;
  as_ranks(2, token, [&](communicator& group, stream& stream) {
    std::vector<char> from(8), to(8);
    const std::vector<std::int64_t> mine{4, 8}, too_few{3, 7};
    try {
      group.all_to_all(stream, from.data(), mine, to.data(), group.rank() == 0 ? mine : too_few);
    } catch (const broken_promise& failure) {
      broken += std::string(failure.what()).starts_with("COLLECTIVE-4");
      token.cancel();
    } catch (const cancelled&) {
      ++released;
    }
  });
  CHECK(broken == 1);
  CHECK(released == 1);
}

TEST_CASE("a generation that ends during any operation releases all ranks", "[collective]") {
  // Each rank overwrites its arrays once it is released, so a thread sanitizer detects late
  // readers.
  const int which = GENERATE(range(0, 6)), delay_us = GENERATE(range(0, 1000, 125));
  CAPTURE(which, delay_us);
  constexpr std::int64_t n = 1 << 14;
  const cancel_token token;
  std::atomic<int> released = 0, begun = 0;
  std::thread end([&] {
    while (begun < 4)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    token.cancel();
  });
  as_ranks(4, token, [&](communicator& group, stream& stream) {
    std::vector<float> from(n, 1), to(n);
    const void* const part = from.data();
    const auto ends = equal_ends(n, 4), bytes = equal_ends(n * 4, 4);
    ++begun;
    try {
      for (int round = 0;; ++round) {
        if (round % 5 == group.rank())
          planted_delay(group.rank(), round);
        switch (which) {
          case 0:
            group.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), n);
            break;
          case 1:
            group.reduce_scatter_sum(stream, dtype::f32, {&part, 1}, to.data(), ends);
            break;
          case 2:
            group.all_gather(stream, from.data(), to.data(), bytes);
            break;
          case 3:
            group.all_to_all(stream, from.data(), bytes, to.data(), bytes);
            break;
          case 4:
            group.broadcast(stream, from.data(), n * 4, round % 4);
            break;
          default:
            group.barrier();
            break;
        }
        std::fill(from.begin(), from.end(), float(round));
      }
    } catch (const cancelled&) {
      ++released;
      std::fill(from.begin(), from.end(), -1.0F);
      std::fill(to.begin(), to.end(), -1.0F);
    }
  });
  end.join();
  CHECK(released == 4);
}
