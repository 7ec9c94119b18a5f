// cudaLaunchKernelEx: launches a kernel with copies of its arguments.

#pragma once

#include "emulated/runtime_api.h"

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8,
};
union cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
  int priority;
  char bytes[64];
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};

/// A launch with dynamic shared memory is refused.
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace troupe::emulator {

/// The kernel and arguments of one launch. Each CUDA thread calls it and gets its own copy of the
/// arguments.
class kernel_call {
 public:
  virtual ~kernel_call() = default;
  virtual void operator()() const = 0;

  const void* kernel = nullptr;
  std::vector<const void*> pointers;  ///< its pointer arguments
  std::size_t argument_bytes = 0;
};

template <class... Arguments>
class kernel_call_of final : public kernel_call {
 public:
  template <class... Actual>
  explicit kernel_call_of(void (*function)(Arguments...), Actual&&... actual)
      : function_(function), arguments_(std::forward<Actual>(actual)...) {
    kernel = reinterpret_cast<const void*>(function);
    argument_bytes = (std::size_t{0} + ... + sizeof(Arguments));
    std::apply([&](const auto&... argument) { (note(argument), ...); }, arguments_);
  }

  void operator()() const override { std::apply(function_, arguments_); }

 private:
  template <class T>
  void note(const T& argument) {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel's arguments are copied as bytes");
    if constexpr (std::is_pointer_v<T>)
      pointers.push_back(argument);
  }

  void (*function_)(Arguments...);
  std::tuple<Arguments...> arguments_;
};

cudaError_t launch(const cudaLaunchConfig_t& config, std::unique_ptr<const kernel_call> call);

}  // namespace troupe::emulator

template <class... Arguments, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Arguments...),
                               Actual&&... actual) {
  using call = troupe::emulator::kernel_call_of<Arguments...>;
  return troupe::emulator::launch(
      *config, std::make_unique<const call>(kernel, std::forward<Actual>(actual)...));
}
