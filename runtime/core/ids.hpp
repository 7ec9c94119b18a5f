// Numbers that must not be mixed up get their own types.

#pragma once

#include <cstdint>
#include <type_traits>

namespace troupe::runtime {

/// Rises whenever the membership changes, from 1. Of two supervisors the later one has the higher
/// epoch, and all of its generations are higher: so one comparison says whom to obey.
enum class generation_id : std::uint64_t {};
enum class step_id : std::uint64_t {};   ///< optimizer step: 1 is the first, 0 the initial state
enum class model_id : std::uint32_t {};  ///< several models may live in one process
enum class chunk_id : std::uint32_t {};  ///< position of a chunk in its model, from 0
enum class copy_id : std::uint32_t {};   ///< copy of a chunk, for two-copy schedules; else 0
enum class microbatch_id : std::uint32_t {};  ///< position within the step, from 0

/// The number itself.
template <class Id>
requires std::is_enum_v<Id>
constexpr std::underlying_type_t<Id> value(Id x) {
  return static_cast<std::underlying_type_t<Id>>(x);
}

template <class Id>
requires std::is_enum_v<Id>
constexpr Id next(Id x) {
  return Id(value(x) + 1);
}

constexpr generation_id make_generation(std::uint32_t epoch, std::uint32_t number) {
  return generation_id(std::uint64_t(epoch) << 32 | number);
}
/// Of the supervisor that began the generation: 0 is the first, each successor's is one higher.
constexpr std::uint32_t epoch_of(generation_id x) {
  return std::uint32_t(value(x) >> 32);
}
/// Counts the generations of an epoch, from 1.
constexpr std::uint32_t number_of(generation_id x) {
  return std::uint32_t(value(x));
}

}  // namespace troupe::runtime
