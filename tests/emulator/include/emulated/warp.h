// Barriers of a block and warp operations.
//
// Each of these switches to another thread of the block. All threads of a block that have not ended
// must reach the same barrier. All lanes of a mask that have not ended must reach the same
// operation, on the same source line and with the same mask. Otherwise the launch fails with an
// error that names the threads.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace troupe::emulator {

/// Replaces std::source_location, which clang 14 lacks.
struct source_location {
  const char* file = "";
  unsigned line = 0;

  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

enum class vote { none, any, all, count };

/// Returns what __syncthreads_<vote> returns.
int block_barrier(vote what, bool predicate, source_location where);

enum class warp_step {
  wait,
  index,
  up,
  down,
  exclusive,
  ballot,
  add,
  least,
  most,
  and_,
  or_,
  xor_
};

/// Depending on `step`: the bits of the lane that `argument` selects within groups of `width`, or
/// the votes or the sum of all lanes.
std::uint64_t warp_collective(warp_step step,
                              unsigned mask,
                              std::uint64_t bits,
                              int argument,
                              int width,
                              source_location where);

unsigned active_lanes();

template <class T>
T shuffled(warp_step step, unsigned mask, T value, int argument, int width, source_location where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_collective(step, mask, bits, argument, width, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace troupe::emulator

#define TROUPE_EMULATED_LOCATION \
  troupe::emulator::source_location where = troupe::emulator::source_location::current()

inline void __syncthreads(TROUPE_EMULATED_LOCATION) {
  troupe::emulator::block_barrier(troupe::emulator::vote::none, false, where);
}
inline int __syncthreads_or(int predicate, TROUPE_EMULATED_LOCATION) {
  return troupe::emulator::block_barrier(troupe::emulator::vote::any, predicate != 0, where);
}
inline int __syncthreads_and(int predicate, TROUPE_EMULATED_LOCATION) {
  return troupe::emulator::block_barrier(troupe::emulator::vote::all, predicate != 0, where);
}
inline int __syncthreads_count(int predicate, TROUPE_EMULATED_LOCATION) {
  return troupe::emulator::block_barrier(troupe::emulator::vote::count, predicate != 0, where);
}

inline void __syncwarp(unsigned mask = 0xffffffffU, TROUPE_EMULATED_LOCATION) {
  troupe::emulator::warp_collective(troupe::emulator::warp_step::wait, mask, 0, 0, 32, where);
}
inline unsigned __activemask() {
  return troupe::emulator::active_lanes();
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, TROUPE_EMULATED_LOCATION) {
  using troupe::emulator::warp_step;
  return troupe::emulator::shuffled(warp_step::index, mask, value, lane, width, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, TROUPE_EMULATED_LOCATION) {
  using troupe::emulator::warp_step;
  return troupe::emulator::shuffled(warp_step::up, mask, value, int(by), width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, TROUPE_EMULATED_LOCATION) {
  using troupe::emulator::warp_step;
  return troupe::emulator::shuffled(warp_step::down, mask, value, int(by), width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TROUPE_EMULATED_LOCATION) {
  using troupe::emulator::warp_step;
  return troupe::emulator::shuffled(warp_step::exclusive, mask, value, bits, width, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, TROUPE_EMULATED_LOCATION) {
  using troupe::emulator::warp_step;
  return unsigned(
      troupe::emulator::warp_collective(warp_step::ballot, mask, predicate != 0, 0, 32, where));
}
inline int __any_sync(unsigned mask, int predicate, TROUPE_EMULATED_LOCATION) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, TROUPE_EMULATED_LOCATION) {
  return __ballot_sync(mask, !predicate, where) == 0;
}

#define TROUPE_EMULATED_REDUCE(name, type, step)                                      \
  inline type name(unsigned mask, type value, TROUPE_EMULATED_LOCATION) {             \
    return type(troupe::emulator::warp_collective(troupe::emulator::warp_step::step,  \
                                                  mask,                               \
                                                  std::uint64_t(std::int64_t(value)), \
                                                  0,                                  \
                                                  32,                                 \
                                                  where));                            \
  }
TROUPE_EMULATED_REDUCE(__reduce_add_sync, unsigned, add)
TROUPE_EMULATED_REDUCE(__reduce_add_sync, int, add)
TROUPE_EMULATED_REDUCE(__reduce_min_sync, unsigned, least)
TROUPE_EMULATED_REDUCE(__reduce_min_sync, int, least)
TROUPE_EMULATED_REDUCE(__reduce_max_sync, unsigned, most)
TROUPE_EMULATED_REDUCE(__reduce_max_sync, int, most)
TROUPE_EMULATED_REDUCE(__reduce_and_sync, unsigned, and_)
TROUPE_EMULATED_REDUCE(__reduce_or_sync, unsigned, or_)
TROUPE_EMULATED_REDUCE(__reduce_xor_sync, unsigned, xor_)
#undef TROUPE_EMULATED_REDUCE
#undef TROUPE_EMULATED_LOCATION

/// Memory fences for the block, the device and the system.
inline void __threadfence_block() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
