// Numbers that must not be mixed up get their own types.

#pragma once

#include <cstdint>
#include <type_traits>

namespace troupe::runtime {

enum class generation_id : std::uint64_t {};  ///< rises whenever the membership changes, from 1
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

}  // namespace troupe::runtime
