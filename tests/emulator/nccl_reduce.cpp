#include "tests/emulator/include/cuda_bf16.h"
#include "tests/emulator/include/cuda_fp16.h"
#include "tests/emulator/nccl.hpp"

#include <algorithm>

namespace troupe::emulator {
namespace {

/// bf16 and fp16 are computed in float and rounded after every step, as each hop of a ring does.
template <class T>
T combined(T a, T b, ncclRedOp_t op) {
  using wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
  const wide x = wide(a), y = wide(b);
  switch (op) {
    case ncclProd:
      return T(wide(x * y));
    case ncclMax:
      return T(std::max(x, y));
    case ncclMin:
      return T(std::min(x, y));
    default:
      return T(wide(x + y));
  }
}

template <class T>
T divided(T sum, std::size_t by) {
  if constexpr (std::is_integral_v<T>)
    return T(sum / T(by));
  else if constexpr (std::is_arithmetic_v<T>)
    return sum / T(by);
  else
    return T(float(sum) / float(by));
}

template <class T>
void reduce_as(const std::vector<const void*>& inputs,
               std::size_t count,
               ncclRedOp_t op,
               void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    T value = static_cast<const T*>(inputs.front())[i];
    for (std::size_t k = 1; k < inputs.size(); ++k)
      value = combined(value, static_cast<const T*>(inputs[k])[i], op);
    static_cast<T*>(to)[i] = op == ncclAvg ? divided(value, inputs.size()) : value;
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

void reduce(const std::vector<const void*>& inputs,
            std::size_t count,
            ncclDataType_t type,
            ncclRedOp_t op,
            void* to) {
  switch (type) {
    case ncclInt8:
      return reduce_as<std::int8_t>(inputs, count, op, to);
    case ncclUint8:
      return reduce_as<std::uint8_t>(inputs, count, op, to);
    case ncclInt32:
      return reduce_as<std::int32_t>(inputs, count, op, to);
    case ncclUint32:
      return reduce_as<std::uint32_t>(inputs, count, op, to);
    case ncclInt64:
      return reduce_as<std::int64_t>(inputs, count, op, to);
    case ncclUint64:
      return reduce_as<std::uint64_t>(inputs, count, op, to);
    case ncclFloat16:
      return reduce_as<__half>(inputs, count, op, to);
    case ncclFloat32:
      return reduce_as<float>(inputs, count, op, to);
    case ncclFloat64:
      return reduce_as<double>(inputs, count, op, to);
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16>(inputs, count, op, to);
  }
}

}  // namespace troupe::emulator
