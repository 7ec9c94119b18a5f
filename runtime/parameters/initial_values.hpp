// Initial weights: Megatron-LM's distribution, by random numbers that depend on nothing but (seed,
// name, element of the unsharded parameter). Who draws them, and in how many pieces, changes no
// bit.

#pragma once

#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Of the valid elements [begin, begin + to.size()) of an entry.
void initial_values(const parameter_entry& e,
                    std::uint64_t seed,
                    std::int64_t begin,
                    std::span<float> to);
/// Of all of them.
std::vector<float> initial_values(const parameter_entry& e, std::uint64_t seed);

/// Neighbours among the valid elements of an entry, until the call that was given them returns.
struct initial_piece {
  int entry = 0;  ///< index in the store
  std::int64_t begin = 0;
  std::span<const float> values;
  const void* rounded = nullptr;  ///< to the type of the store
};

/// Gives all initial values to `take`, on the calling thread, in the order of the entries; those
/// that are tied to another of the store are left out. Other threads draw meanwhile: all drawings
/// of this process together have no more of them than it has processors. Some MB for each thread is
/// all the memory that it takes. What `take` throws ends it.
void draw_initial_values(const parameter_store& store,
                         std::uint64_t seed,
                         const std::function<void(const initial_piece&)>& take);

/// Sets all of them.
void initialise(parameter_store& store, std::uint64_t seed);

}  // namespace troupe::runtime
