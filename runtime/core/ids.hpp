// Distinct types for numbers that must not be mixed up.

#pragma once

#include <cstdint>
#include <type_traits>

namespace troupe::runtime {

/// Increases with every change of the membership, from 1. A later supervisor has a higher epoch,
/// and all its generations are higher too. So one comparison decides between the messages of two
/// supervisors.
enum class generation_id : std::uint64_t {};
enum class step_id : std::uint64_t {};        ///< optimizer step, from 1; 0 is the initial state
enum class model_id : std::uint32_t {};       ///< one process may hold several models
enum class chunk_id : std::uint32_t {};       ///< position in its model, from 0
enum class copy_id : std::uint32_t {};        ///< copy of a chunk in two-copy schedules; else 0
enum class microbatch_id : std::uint32_t {};  ///< position within the step, from 0

template <class Type, class... All>
inline constexpr bool is_any_of = (std::is_same_v<Type, All> || ...);
/// No other enumerations: Catch's GENERATE calls a `value` of its own with them.
template <class Id>
concept strong_id
    = is_any_of<Id, generation_id, step_id, model_id, chunk_id, copy_id, microbatch_id>;

template <strong_id Id>
constexpr std::underlying_type_t<Id> value(Id x) {
  return static_cast<std::underlying_type_t<Id>>(x);
}

template <strong_id Id>
constexpr Id next(Id x) {
  return Id(value(x) + 1);
}

constexpr generation_id make_generation(std::uint32_t epoch, std::uint32_t number) {
  return generation_id(std::uint64_t(epoch) << 32 | number);
}
/// Epoch of the supervisor that started the generation: 0 for the first supervisor, one more for
/// each successor.
constexpr std::uint32_t epoch_of(generation_id x) {
  return std::uint32_t(value(x) >> 32);
}
/// Position within its epoch, from 1.
constexpr std::uint32_t number_of(generation_id x) {
  return std::uint32_t(value(x));
}

}  // namespace troupe::runtime
