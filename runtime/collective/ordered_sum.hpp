// The sum of all transports: in the order of the sources, in f32, rounded once.

#pragma once

#include "runtime/device/stream.hpp"
#include "runtime/tensor/dtype.hpp"

#include <span>

namespace troupe::runtime {

/// COLLECTIVE-3: sums take f32, bf16 and f16.
void require_summable(dtype type);

/// `to` = sum of the sources, n elements each. `to` may be one of the sources.
void ordered_sum(
    stream& stream, dtype type, void* to, std::span<const void* const> sources, std::int64_t n);

}  // namespace troupe::runtime
