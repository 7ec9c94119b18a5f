// The judge: every operation in plain loops, sums in double, one thread. No cleverness.

#pragma once

#include "kernels/op/every_op.hpp"

namespace troupe::kernels::reference {

/// Defined for every operation, in the source of its family, in every type that it exists in.
#define TROUPE_DECLARE(op, types, memory) \
  template <class T>                      \
  void run(const op<T>& what);
TROUPE_EVERY_OPERATION(TROUPE_DECLARE)
#undef TROUPE_DECLARE

}  // namespace troupe::kernels::reference
