// The reference backend: every operation in plain loops on one thread, summed in double. Tests
// judge the other backends by it.

#pragma once

#include "kernels/op/every_op.hpp"

namespace troupe::kernels::reference {

/// Each family's source defines its operations for their registered types.
#define TROUPE_DECLARE(op, types, memory) \
  template <class T>                      \
  void run(const op<T>& what);
TROUPE_EVERY_OPERATION(TROUPE_DECLARE)
#undef TROUPE_DECLARE

}  // namespace troupe::kernels::reference
