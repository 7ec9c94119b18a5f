// Runs each operation of a group with many types, sizes and cuts. Inputs depend only on rank and
// round. Returns the results as text, to compare with runs elsewhere.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/core/hash.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <random>
#include <string>
#include <vector>

namespace troupe::tests {

using namespace runtime;

/// Numbers of very different magnitude, so that another order of summation gives another sum.
template <class T>
std::vector<T> window_addends(std::int64_t n, std::uint32_t which) {
  std::mt19937 rng{which};
  std::vector<T> out;
  for (std::int64_t i = 0; i < n; ++i)
    out.push_back(T((float(rng() % 20001) - 10000.0F) * (rng() % 3 == 0 ? 1e2F : 1e-5F)));
  return out;
}

/// Uneven cuts of n elements, the same everywhere; some are empty.
inline std::vector<std::int64_t> window_cuts(std::int64_t n, int size, std::uint32_t seed) {
  std::mt19937 rng{seed};
  std::vector<std::int64_t> out;
  for (int r = 0; r + 1 < size; ++r)
    out.push_back(rng() % 3 == 0 && !out.empty() ? out.back()
                                                 : std::int64_t(rng() % std::uint64_t(n + 1)));
  std::sort(out.begin(), out.end());
  out.push_back(n);
  return out;
}

template <class T>
std::string window_hash(const std::vector<T>& x) {
  return fmt::format("{:016x}", hash64(x.data(), x.size() * sizeof(T)));
}

template <class T>
std::string window_sums(communicator& group, stream& stream, std::int64_t n, std::uint32_t seed) {
  const int r = group.rank(), parts = 1 + int(seed % 3);
  std::vector<std::vector<T>> mine;
  for (int p = 0; p < parts; ++p)
    mine.push_back(window_addends<T>(n, seed * 1000 + std::uint32_t(r * parts + p)));
  std::vector<const void*> addresses;
  for (const auto& part : mine)
    addresses.push_back(part.data());
  std::vector<T> out(static_cast<std::size_t>(n)), cut(static_cast<std::size_t>(n));
  group.all_reduce_sum(stream, dtype_of<T>(), addresses, out.data(), n);
  const auto ends = window_cuts(n, group.size(), seed);
  group.reduce_scatter_sum(stream, dtype_of<T>(), addresses, cut.data(), ends);
  auto said = window_hash(out) + " " + window_hash(cut);
  group.all_reduce_sum(stream, dtype_of<T>(), addresses, mine[0].data(), n);  // in place
  return said + " " + window_hash(mine[0]);
}

inline std::string window_moves(communicator& group,
                                stream& stream,
                                std::int64_t n,
                                std::uint32_t seed) {
  const int r = group.rank(), size = group.size();
  const auto ends = window_cuts(n, size, seed);
  const auto begin = [](const std::vector<std::int64_t>& of, int i) {
    return i == 0 ? 0 : of[std::size_t(i - 1)];
  };
  const auto bytes = [](std::int64_t count, std::uint32_t which) {
    std::mt19937 rng{which};
    std::vector<std::uint8_t> out;
    for (std::int64_t i = 0; i < count; ++i)
      out.push_back(std::uint8_t(rng()));
    return out;
  };
  const auto own = bytes(ends[std::size_t(r)] - begin(ends, r), seed + std::uint32_t(r));
  std::vector<std::uint8_t> all(static_cast<std::size_t>(n));
  group.all_gather(stream, own.data(), all.data(), ends);
  auto said = window_hash(all);

  // Rank a sends the b-th of its cuts to rank b.
  const auto from_ends = window_cuts(n, size, seed + 100 + std::uint32_t(r));
  const auto from = bytes(n, seed + 200 + std::uint32_t(r));
  std::vector<std::int64_t> to_ends;
  std::int64_t sum = 0;
  for (int a = 0; a < size; ++a) {
    const auto theirs = window_cuts(n, size, seed + 100 + std::uint32_t(a));
    to_ends.push_back(sum += theirs[std::size_t(r)] - begin(theirs, r));
  }
  std::vector<std::uint8_t> to(static_cast<std::size_t>(sum));
  group.all_to_all(stream, from.data(), from_ends, to.data(), to_ends);
  said += " " + window_hash(to);

  auto data = bytes(n, seed + 300 + std::uint32_t(r));
  group.broadcast(stream, data.data(), n, int(seed) % size);
  group.barrier();
  return said + " " + window_hash(data);
}

/// Rank `full` alone has bytes, and sends all of them to the next rank. Other arrays have no
/// address.
inline std::string window_one_sided(communicator& group, stream& stream, int full) {
  const int r = group.rank(), size = group.size(), next = (full + 1) % size;
  const std::int64_t n = 50'021;
  const auto ends_from = [&](int rank, std::int64_t bytes) {
    std::vector<std::int64_t> out;
    for (int i = 0; i < size; ++i)
      out.push_back(i >= rank ? bytes : 0);
    return out;
  };
  std::vector<std::uint8_t> mine(static_cast<std::size_t>(r == full ? n : 0), std::uint8_t(full));
  std::vector<std::uint8_t> all(static_cast<std::size_t>(n), 255);
  group.all_gather(stream, mine.data(), all.data(), ends_from(full, n));
  std::vector<std::uint8_t> to(static_cast<std::size_t>(r == next ? n : 0), 255);
  group.all_to_all(stream,
                   mine.data(),
                   ends_from(next, std::int64_t(mine.size())),
                   to.data(),
                   ends_from(full, std::int64_t(to.size())));
  return window_hash(all) + " " + window_hash(to);
}

/// The result of each call on this rank.
inline std::vector<std::string> window_scenario(communicator& group, stream& stream) {
  std::vector<std::string> out;
  std::uint32_t seed = 1;
  for (const std::int64_t n : {0, 1, 3, 17, 1000, 40'001, 300'007}) {
    out.push_back(window_sums<float>(group, stream, n, ++seed));
    out.push_back(window_sums<kernels::bf16>(group, stream, n, ++seed));
    out.push_back(window_sums<kernels::f16>(group, stream, n, ++seed));
    out.push_back(window_moves(group, stream, n, ++seed));
  }
  for (int full = 0; full < group.size(); ++full)
    out.push_back(window_one_sided(group, stream, full));
  return out;
}

}  // namespace troupe::tests
