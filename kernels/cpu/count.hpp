// Counting on processors: bound by memory, so that the compiler's own vectors do.

#pragma once

#include "kernels/op/count.hpp"

namespace troupe::kernels::cpu {

void run(const count_zeros<float>& op, const context& in);

}  // namespace troupe::kernels::cpu
