// Initial weights. Normal ones have Megatron-LM's distribution. Each random number depends only on
// (seed, name, element of the unsharded parameter), so sharding and threading do not change a bit.

#pragma once

#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Draws the valid elements [begin, begin + to.size()) of an entry.
void initial_values(const parameter_entry& e,
                    std::uint64_t seed,
                    std::int64_t begin,
                    std::span<float> to);
/// Draws all valid elements of an entry.
std::vector<float> initial_values(const parameter_entry& e, std::uint64_t seed);

/// Consecutive valid elements of an entry. Valid until the callback returns.
struct initial_piece {
  int entry = 0;  ///< index in the store
  std::int64_t begin = 0;
  std::span<const float> values;
  const void* rounded = nullptr;  ///< values rounded to the store's type
};

/// Passes all initial values to `take` on the calling thread, in the order of the entries. Skips
/// entries that are tied to another entry of the store. Helper threads draw ahead; all calls of
/// this process together use at most one thread per processor. Needs a few MB per thread.
/// Exceptions of `take` end the call.
void draw_initial_values(const parameter_store& store,
                         std::uint64_t seed,
                         const std::function<void(const initial_piece&)>& take);

/// Sets all values of the store.
void initialise(parameter_store& store, std::uint64_t seed);

}  // namespace troupe::runtime
