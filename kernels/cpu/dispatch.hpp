// HWY_EXPORT for a function template over the type of element, which Highway 1.0 cannot export.
//
//   TROUPE_EXPORT(add_range);                        // add_range<T> of every instruction set
//   TROUPE_DISPATCH(add_range, T)(op, begin, end);   // that of this machine's best
//
// Included after Highway's foreach_target.h, used in the part of a source that is compiled once.

#pragma once

#include <hwy/highway.h>

namespace troupe::kernels::cpu {

/// Of the best instruction set, in the tables below. Each source calls its own: which instruction
/// sets are compiled is known to it alone.
static inline std::size_t chosen_target() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized())
    chosen.Update(hwy::SupportedTargets());
  return chosen.GetIndex();
}

}  // namespace troupe::kernels::cpu

// Highway's order: a place for "not chosen yet", the targets, the one that is always there.
#define TROUPE_EXPORT(function)                                                \
  template <class T>                                                           \
  constexpr decltype(&HWY_STATIC_DISPATCH(function<T>)) function##_of_target[] \
      = {nullptr, HWY_CHOOSE_TARGET_LIST(function<T>), HWY_CHOOSE_FALLBACK(function<T>)}

#define TROUPE_DISPATCH(function, T) (*function##_of_target<T>[cpu::chosen_target()])
