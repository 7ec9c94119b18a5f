// Compares each operation over NCCL with the same operation of a host group, bit for bit. Emulated
// queues run late, and communicators return "in progress" about every second time.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/nccl_ranks.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cstring>
#include <random>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using kernels::bf16;
using kernels::f16;

namespace {

using bytes = std::vector<std::uint8_t>;
using of_ranks = std::vector<std::vector<bytes>>;  ///< the results of each rank's operations
using work = std::function<bytes(communicator&, stream&)>;

template <class T>
bytes bits(stream& stream, const tensor& x) {
  const auto values = elements_of<T>(stream, x);
  bytes out(values.size() * sizeof(T));
  if (!out.empty())
    std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// Numbers of very different magnitude, so that another order of summation gives another sum.
template <class T>
std::vector<T> addends(std::int64_t n, int which) {
  std::vector<T> out;
  for (const float x : normal<float>(std::size_t(n), std::uint32_t(which)))
    out.push_back(T(x * ((out.size() + std::size_t(which)) % 3 == 0 ? 1e3F : 1e-2F)));
  return out;
}

/// Uneven cuts of n elements, some of them empty.
std::vector<std::int64_t> uneven_ends(std::int64_t n, int size) {
  std::mt19937 rng{std::uint32_t(n + size)};
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
struct own_parts {
  std::vector<tensor> arrays;
  std::vector<const void*> addresses;

  own_parts(const communicator& group, stream& stream, int parts, std::int64_t n) {
    for (int p = 0; p < parts; ++p) {
      arrays.push_back(uploaded(stream, addends<T>(n, group.rank() * parts + p), {n}));
      addresses.push_back(arrays.back().raw());
    }
  }
};

template <class T>
bytes all_reduced(communicator& group, stream& stream, int parts, std::int64_t n, bool in_place) {
  const own_parts<T> mine(group, stream, parts, n);
  auto to = in_place ? mine.arrays[0] : tensor::empty<T>(stream, {n});
  group.all_reduce_sum(stream, dtype_of<T>(), mine.addresses, to.raw(), n);
  auto out = bits<T>(stream, to);
  for (int p = in_place ? 1 : 0; p < parts; ++p)  // the other parts must be unchanged
    for (const auto x : bits<T>(stream, mine.arrays[std::size_t(p)]))
      out.push_back(x);
  return out;
}

template <class T>
bytes scattered(communicator& group,
                stream& stream,
                int parts,
                const std::vector<std::int64_t>& ends,
                bool in_place) {
  const own_parts<T> mine(group, stream, parts, ends.back());
  const auto begin = begin_of(ends, group.rank());
  const auto cut = ends[std::size_t(group.rank())] - begin;
  auto to = in_place ? mine.arrays[0].slice(begin, {cut}) : tensor::empty<T>(stream, {cut});
  group.reduce_scatter_sum(stream, dtype_of<T>(), mine.addresses, to.raw(), ends);
  return bits<T>(stream, to);
}

bytes gathered(communicator& group,
               stream& stream,
               const std::vector<std::int64_t>& ends,
               bool in_place) {
  const auto begin = begin_of(ends, group.rank());
  const auto cut = ends[std::size_t(group.rank())] - begin;
  const auto mine = uploaded(stream, addends<float>(cut + 1, group.rank()), {cut + 1});
  auto to
      = uploaded(stream, std::vector<float>(std::size_t(ends.back()) + 1, -1), {ends.back() + 1});
  std::vector<std::int64_t> in_bytes;
  for (const auto end : ends)
    in_bytes.push_back(end * 4);
  auto* const place = to.raw() + begin * 4;
  if (in_place)
    stream.copy(place, mine.raw(), std::size_t(cut) * 4);
  group.all_gather(stream, in_place ? place : mine.raw(), to.raw(), in_bytes);
  return bits<float>(stream, to);
}

bytes exchanged(communicator& group, stream& stream, int round) {
  // Rank a sends (a + 1) * 5 + b * round bytes to rank b, and none to itself in odd rounds.
  const auto count = [&](int a, int b) {
    return std::int64_t(a == b && round % 2 == 1 ? 0 : (a + 1) * 5 + b * round);
  };
  std::vector<std::int64_t> from_ends, to_ends;
  std::int64_t sent = 0, received = 0;
  for (int r = 0; r < group.size(); ++r) {
    from_ends.push_back(sent += count(group.rank(), r));
    to_ends.push_back(received += count(r, group.rank()));
  }
  const auto from = uploaded(stream, addends<float>(sent, group.rank() + 10 * round), {sent});
  auto to = uploaded(stream, std::vector<float>(std::size_t(received) + 1), {received + 1});
  group.all_to_all(stream, from.raw(), from_ends, to.raw(), to_ends);
  return bits<float>(stream, to);
}

bytes broadcast(communicator& group, stream& stream, int root) {
  auto x = uploaded(stream, addends<float>(33, group.rank()), {33});
  group.broadcast(stream, x.raw(), 33 * 4, root);
  return bits<float>(stream, x);
}

std::vector<work> every_operation(int size) {
  std::vector<work> out;
  for (const int parts : {1, 3})
    for (const std::int64_t n : {1, 17, 1003})
      for (const bool in_place : {false, true}) {
        out.push_back([=](communicator& g, stream& stream) {
          return all_reduced<float>(g, stream, parts, n, in_place);
        });
        out.push_back([=](communicator& g, stream& stream) {
          return all_reduced<bf16>(g, stream, parts, n, in_place);
        });
        out.push_back([=](communicator& g, stream& stream) {
          return all_reduced<f16>(g, stream, parts, n, in_place);
        });
        for (const auto& ends : {uneven_ends(n, size), equal_ends(n * size, size)}) {
          out.push_back([=](communicator& g, stream& stream) {
            return scattered<float>(g, stream, parts, ends, in_place);
          });
          out.push_back([=](communicator& g, stream& stream) {
            return scattered<bf16>(g, stream, parts, ends, in_place);
          });
          out.push_back([=](communicator& g, stream& stream) {
            return scattered<f16>(g, stream, parts, ends, in_place);
          });
          out.push_back(
              [=](communicator& g, stream& stream) { return gathered(g, stream, ends, in_place); });
        }
      }
  for (int round = 0; round < 4; ++round)
    out.push_back([=](communicator& g, stream& stream) { return exchanged(g, stream, round); });
  for (int root = 0; root < size; ++root)
    out.push_back([=](communicator& g, stream& stream) { return broadcast(g, stream, root); });
  return out;
}

of_ranks by_host(int size, const std::vector<work>& all) {
  of_ranks out(static_cast<std::size_t>(size));
  const auto group = std::make_shared<local_group>(axis::tensor, size, cancel_token());
  on_threads(size, [&](int r) {
    local_communicator mine(group, r);
    stream stream(kernels::backend::cpu, 1, {});
    for (const auto& one : all)
      out[std::size_t(r)].push_back(one(mine, stream));
  });
  return out;
}

of_ranks by_nccl(int size,
                 const std::vector<work>& all,
                 collective_mode mode,
                 std::int64_t scratch = ordered_scratch) {
  of_ranks out(static_cast<std::size_t>(size));
  nccl_groups groups({}, 1, mode, std::make_shared<nccl_meeting>(), scratch);
  as_nccl_ranks(groups, size, [&](nccl_communicator& mine, stream& stream) {
    for (const auto& one : all)
      out[std::size_t(mine.rank())].push_back(one(mine, stream));
  });
  return out;
}

std::vector<float> as_floats(const bytes& x) {
  std::vector<float> out(x.size() / 4);
  std::memcpy(out.data(), x.data(), out.size() * 4);
  return out;
}

}  // namespace

TEST_CASE("ordered operations between devices and on the host have the same bits",
          "[collective][nccl]") {
  const int size = GENERATE(range(1, 5)), seed = GENERATE(1, 2);
  CAPTURE(size, seed);
  emulator::set_seed(std::uint64_t(seed));
  emulator::set_delay(seed == 1 ? 0 : 50);
  const auto all = every_operation(size);
  const auto expected = by_host(size, all), found = by_nccl(size, all, collective_mode::ordered);
  emulator::set_delay(0);
  for (int r = 0; r < size; ++r)
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(r, i);
      CHECK((found[std::size_t(r)][i] == expected[std::size_t(r)][i]));
    }
}

TEST_CASE("an ordered sum larger than its scratch memory runs in pieces, with the same bits",
          "[collective][nccl]") {
  const int size = GENERATE(2, 3);
  const std::vector<work> all{
      [](communicator& g, stream& stream) { return all_reduced<float>(g, stream, 2, 5003, true); },
      [=](communicator& g, stream& stream) {
        return scattered<bf16>(g, stream, 1, uneven_ends(3001, size), false);
      }};
  CHECK((by_nccl(size, all, collective_mode::ordered, 4096) == by_host(size, all)));
}

TEST_CASE("fast sums are reproducible and equal the ordered ones up to rounding",
          "[collective][nccl]") {
  const int size = GENERATE(range(1, 5)), parts = GENERATE(1, 2);
  const bool in_place = GENERATE(false, true);
  CAPTURE(size, parts, in_place);
  const std::int64_t n = 999;
  const std::vector<work> all{
      [=](communicator& g, stream& stream) {
        return all_reduced<float>(g, stream, parts, n, in_place);
      },
      [=](communicator& g, stream& stream) {
        return scattered<float>(g, stream, parts, equal_ends(n * size, size), in_place);
      },
      [=](communicator& g, stream& stream) {
        return scattered<float>(g, stream, parts, uneven_ends(n, size), in_place);
      }};
  const auto first = by_nccl(size, all, collective_mode::fast);
  CHECK((by_nccl(size, all, collective_mode::fast) == first));
  const auto ordered = by_host(size, all);
  for (int r = 0; r < size; ++r)
    for (std::size_t i = 0; i < all.size(); ++i)
      // At most 8 addends in f32: 7 roundings of 2^-24 of the largest partial sum.
      CHECK(
          relative_error(as_floats(first[std::size_t(r)][i]), as_floats(ordered[std::size_t(r)][i]))
          < 1e-6);
}

TEST_CASE("operations that only move data are the same in both modes", "[collective][nccl]") {
  const std::vector<work> all{
      [](communicator& g, stream& stream) {
        return gathered(g, stream, uneven_ends(100, 3), false);
      },
      [](communicator& g, stream& stream) { return gathered(g, stream, equal_ends(99, 3), true); },
      [](communicator& g, stream& stream) { return exchanged(g, stream, 2); },
      [](communicator& g, stream& stream) { return broadcast(g, stream, 2); }};
  CHECK((by_nccl(3, all, collective_mode::fast) == by_host(3, all)));
}
