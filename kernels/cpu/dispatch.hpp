// HWY_EXPORT for function templates over the element type, which Highway 1.0 does not support.
//
//   TROUPE_EXPORT(add_range);                        // add_range<T> of every instruction set
//   TROUPE_DISPATCH(add_range, T)(op, begin, end);   // calls that of this machine's best
//
// Include after Highway's foreach_target.h; use in the part of a source that is compiled once.

#pragma once

#include <hwy/highway.h>

namespace troupe::kernels::cpu {

/// Index of the best instruction set in the tables below. Static, because each source has its own
/// list of compiled instruction sets.
static inline std::size_t chosen_target() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized())
    chosen.Update(hwy::SupportedTargets());
  return chosen.GetIndex();
}

}  // namespace troupe::kernels::cpu

// Highway's order: a slot for "not chosen yet", the targets, the fallback.
#define TROUPE_EXPORT(function)                                                \
  template <class T>                                                           \
  constexpr decltype(&HWY_STATIC_DISPATCH(function<T>)) function##_of_target[] \
      = {nullptr, HWY_CHOOSE_TARGET_LIST(function<T>), HWY_CHOOSE_FALLBACK(function<T>)}

#define TROUPE_DISPATCH(function, T) (*function##_of_target<T>[cpu::chosen_target()])
