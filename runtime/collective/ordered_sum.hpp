// Sums as every transport of this room takes them: in order, in f32, rounded once.

#pragma once

#include "runtime/device/stream.hpp"
#include "runtime/tensor/dtype.hpp"

#include <span>

namespace troupe::runtime {

/// COLLECTIVE-3: sums take f32, bf16 and f16.
void require_summable(dtype type);

/// `to`, which may be one of the sources, = their sum; n elements each.
void ordered_sum(
    stream& stream, dtype type, void* to, std::span<const void* const> sources, std::int64_t n);

}  // namespace troupe::runtime
