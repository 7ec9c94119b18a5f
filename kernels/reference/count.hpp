// Counting, by plain loops.

#pragma once

#include "kernels/op/count.hpp"

namespace troupe::kernels::reference {

/// T = float and double.
template <class T>
void run(const count_zeros<T>& op);

}  // namespace troupe::kernels::reference
