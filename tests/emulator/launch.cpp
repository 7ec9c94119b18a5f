// Kernel launches: checks the launch and enqueues the grid on its stream.

#include "tests/emulator/grid.hpp"
#include "tests/emulator/memory.hpp"
#include "tests/emulator/settings.hpp"
#include "tests/emulator/streams.hpp"
#include "tests/emulator/symbols.hpp"

#include <atomic>
#include <cstdio>

namespace troupe::emulator {
namespace {

constexpr unsigned most_threads = 1024;
constexpr unsigned most_blocks_x = 0x7fffffff;
constexpr unsigned most_blocks_yz = 65535;
constexpr std::size_t most_argument_bytes = 4096;
constexpr std::size_t most_shared_bytes = 48 << 10;

std::string text_of(dim3 v) {
  return std::to_string(v.x) + " x " + std::to_string(v.y) + " x " + std::to_string(v.z);
}

/// The reason to refuse a launch; empty if a device would accept it.
std::string wrong_with(const cudaLaunchConfig_t& config, const kernel_call& call) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const auto threads = std::uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > most_threads || block.x > 1024 || block.y > 1024 || block.z > 64)
    return "a block of " + text_of(block) + " threads; at most 1024, at least 1";
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > most_blocks_x || grid.y > most_blocks_yz
      || grid.z > most_blocks_yz)
    return "a grid of " + text_of(grid) + " blocks; at most 2^31 - 1 x 65535 x 65535, at least 1";
  if (config.dynamicSmemBytes != 0)
    return "dynamic shared memory; kernels here have static shared memory only";
  if (call.argument_bytes > most_argument_bytes)
    return std::to_string(call.argument_bytes) + " bytes of arguments; at most 4096";
  if (const auto shared = symbols_of(call.kernel).shared_bytes; shared > most_shared_bytes)
    return std::to_string(shared) + " bytes of shared memory; at most 49152";
  return {};
}

/// The first pointer argument to memory that a device cannot read.
const void* foreign_pointer(const kernel_call& call) {
  for (const void* const one : call.pointers)
    if (one != nullptr && !device_of(one) && !is_pinned(one))
      return one;
  return nullptr;
}

cudaError_t refuse(cudaError_t error, const kernel_call& call, const std::string& why) {
  say("the launch of kernel " + kernel_name(call.kernel) + " is refused: " + why);
  return error;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, std::unique_ptr<const kernel_call> call) {
  return runtime_call("cudaLaunchKernelEx", [&] {
    if (const auto wrong = wrong_with(config, *call); !wrong.empty())
      return refuse(cudaErrorInvalidConfiguration, *call, wrong);
    if (const void* const host = foreign_pointer(*call); host != nullptr) {
      char text[96];
      std::snprintf(text, sizeof text, "its argument %p is pageable memory of the host", host);
      return refuse(cudaErrorIllegalAddress, *call, text);
    }
    const auto queue = find_stream(config.stream);
    if (!queue)
      return refuse(cudaErrorInvalidResourceHandle, *call, "its stream does not exist");
    if (queue->device != current_device())
      return refuse(cudaErrorInvalidResourceHandle,
                    *call,
                    "its stream belongs to device " + std::to_string(queue->device)
                        + ", the current one is " + std::to_string(current_device()));
    const std::uint64_t seed = machine().seed + ++counted().launches * 0x2545f4914f6cdd1dU;
    std::shared_ptr<const kernel_call> shared = std::move(call);
    queue->push(
        item_kind::work,
        [shared, grid = config.gridDim, block = config.blockDim, seed, device = queue->device] {
          if (const auto failure = run_grid(*shared, grid, block, seed))
            break_device(device, *failure);
        });
    return cudaSuccess;
  });
}

}  // namespace troupe::emulator
