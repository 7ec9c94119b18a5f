#include "tests/emulator/include/cuda_bf16.h"
#include "tests/emulator/include/cuda_fp16.h"
#include "tests/emulator/nccl.hpp"

namespace troupe::emulator {
namespace {

/// Adds bf16 and fp16 in float and rounds after each step, like each hop of a ring.
template <class T>
void sum_as(const std::vector<const void*>& inputs, std::size_t count, void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    T value = static_cast<const T*>(inputs.front())[i];
    for (std::size_t k = 1; k < inputs.size(); ++k)
      value = T(float(value) + float(static_cast<const T*>(inputs[k])[i]));
    static_cast<T*>(to)[i] = value;
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclFloat32:
      return 4;
  }
  return 0;
}

void sum(const std::vector<const void*>& inputs, std::size_t count, ncclDataType_t type, void* to) {
  switch (type) {
    case ncclUint8:
      return sum_as<std::uint8_t>(inputs, count, to);
    case ncclFloat16:
      return sum_as<__half>(inputs, count, to);
    case ncclFloat32:
      return sum_as<float>(inputs, count, to);
    case ncclBfloat16:
      return sum_as<__nv_bfloat16>(inputs, count, to);
  }
}

}  // namespace troupe::emulator
