// Runtime calls for memory and copies.

#include "tests/emulator/cache.hpp"
#include "tests/emulator/memory.hpp"
#include "tests/emulator/settings.hpp"
#include "tests/emulator/streams.hpp"

#include <cstring>
#include <vector>

namespace troupe::emulator {
namespace {

enum class place_of { device, pinned, pageable };

place_of kind_of(const void* at) {
  if (device_of(at))
    return place_of::device;
  return is_pinned(at) ? place_of::pinned : place_of::pageable;
}

/// Whether `bytes` from `at` on lie in one allocation. True for all host memory.
bool inside(const void* at, std::size_t bytes) {
  if (!device_of(at))
    return at != nullptr || bytes == 0;
  const auto block = device_block(at);
  return block
         && static_cast<const std::byte*>(at) - block->at + std::ptrdiff_t(bytes)
                <= std::ptrdiff_t(block->bytes);
}

bool fits(cudaMemcpyKind kind, const void* to, const void* from) {
  const bool to_device = kind_of(to) == place_of::device;
  const bool from_device = kind_of(from) == place_of::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

struct rows {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t height;

  std::size_t reach(std::size_t pitch) const {
    return height == 0 || width == 0 ? 0 : (height - 1) * pitch + width;
  }
};

void copy(const rows& what) {
  for (std::size_t i = 0; i < what.height; ++i)
    std::memcpy(static_cast<std::byte*>(what.to) + i * what.to_pitch,
                static_cast<const std::byte*>(what.from) + i * what.from_pitch,
                what.width);
}

/// Reads and writes pageable memory before it returns, as CUDA specifies. Pinned and device memory
/// are accessed when the stream reaches the item.
cudaError_t enqueue_copy(rows what, cudaMemcpyKind kind, stream_queue& queue) {
  if (what.width == 0 || what.height == 0)
    return cudaSuccess;
  if (what.to_pitch < what.width || what.from_pitch < what.width
      || !inside(what.to, what.reach(what.to_pitch))
      || !inside(what.from, what.reach(what.from_pitch)))
    return cudaErrorInvalidValue;
  if (!fits(kind, what.to, what.from))
    return cudaErrorInvalidMemcpyDirection;
  if (kind_of(what.from) == place_of::pageable && kind_of(what.to) == place_of::device) {
    auto staged = std::make_shared<std::vector<std::byte>>(what.width * what.height);
    rows to_staging = what;
    to_staging.to = staged->data();
    to_staging.to_pitch = what.width;
    copy(to_staging);
    what.from = staged->data();
    what.from_pitch = what.width;
    queue.push(item_kind::work, [staged, what] { copy(what); });
    return cudaSuccess;
  }
  const auto done = queue.push(item_kind::work, [what] { copy(what); });
  if (kind_of(what.to) == place_of::pageable || kind_of(what.from) == place_of::pageable) {
    ++counted().waits;
    done->wait();
    return device_error(queue.device);
  }
  return cudaSuccess;
}

cudaError_t copy_call(const char* call,
                      const rows& what,
                      cudaMemcpyKind kind,
                      cudaStream_t stream) {
  return runtime_call(call, [&] {
    const auto queue = find_stream(stream);
    return queue ? enqueue_copy(what, kind, *queue) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t set_call(
    const char* call, void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return runtime_call(call, [&] {
    const auto queue = find_stream(stream);
    if (!queue)
      return cudaErrorInvalidResourceHandle;
    if (kind_of(at) == place_of::pageable || !inside(at, bytes))
      return cudaErrorInvalidValue;
    queue->push(item_kind::work, [=] { std::memset(at, value, bytes); });
    write_through_cache(bytes);
    return cudaSuccess;
  });
}

cudaError_t waited(cudaError_t after, cudaStream_t stream) {
  return after == cudaSuccess ? cudaStreamSynchronize(stream) : after;
}

cudaError_t allocate(const char* call, void** at, std::size_t bytes) {
  return runtime_call(call, [&] {
    if (at == nullptr)
      return cudaErrorInvalidValue;
    *at = bytes == 0 ? nullptr : allocate_device(current_device(), bytes);
    return *at == nullptr && bytes != 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t pin(const char* call, void** at, std::size_t bytes) {
  return runtime_call(call, [&] {
    if (at == nullptr)
      return cudaErrorInvalidValue;
    *at = bytes == 0 ? nullptr : allocate_pinned(bytes);
    return *at == nullptr && bytes != 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

/// Waits for all devices, because any of them may still access pinned memory.
void synchronize_all() {
  for (int device = 0; device < machine().devices; ++device)
    synchronize_device(device);
}

}  // namespace
}  // namespace troupe::emulator

using namespace troupe::emulator;

extern "C" {

cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  return allocate("cudaMalloc", at, bytes);
}

cudaError_t cudaFree(void* at) {
  return runtime_call("cudaFree", [&] {
    if (at == nullptr)
      return cudaSuccess;
    const auto device = device_of(at);
    if (!device)
      return cudaErrorInvalidValue;
    synchronize_device(*device);
    return free_device(at) ? device_error(*device) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocAsync(void** at, std::size_t bytes, cudaStream_t stream) {
  if (!find_stream(stream))
    return noted(cudaErrorInvalidResourceHandle);
  return allocate("cudaMallocAsync", at, bytes);
}

cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
  if (at == nullptr)
    return cudaSuccess;
  if (!device_block(at))
    return noted(cudaErrorInvalidValue);
  return enqueue("cudaFreeAsync", stream, item_kind::work, [at] { free_device(at); });
}

cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  return pin("cudaMallocHost", at, bytes);
}

cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned) {
  return pin("cudaHostAlloc", at, bytes);
}

cudaError_t cudaFreeHost(void* at) {
  return runtime_call("cudaFreeHost", [&] {
    if (at == nullptr)
      return cudaSuccess;
    synchronize_all();
    return free_pinned(at) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* at, std::size_t bytes, unsigned) {
  return runtime_call("cudaHostRegister", [&] {
    if (at == nullptr || bytes == 0 || device_of(at))
      return cudaErrorInvalidValue;
    return register_pinned(at, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* at) {
  return runtime_call("cudaHostUnregister", [&] {
    synchronize_all();
    return unregister_pinned(at) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return runtime_call("cudaHostGetDevicePointer", [&] {
    *device = host;
    return is_pinned(host) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
  return runtime_call("cudaPointerGetAttributes", [&] {
    void* const plain = const_cast<void*>(at);
    if (const auto block = device_block(at))
      *attributes = {cudaMemoryTypeDevice, block->device, plain, nullptr};
    else if (is_pinned(at))
      *attributes = {cudaMemoryTypeHost, current_device(), plain, plain};
    else
      *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, plain};
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return runtime_call("cudaMemGetInfo", [&] {
    *free = free_bytes(current_device());
    *total = machine().memory;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return waited(copy_call("cudaMemcpy", {to, bytes, from, bytes, bytes, 1}, kind, nullptr),
                nullptr);
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_call("cudaMemcpyAsync", {to, bytes, from, bytes, bytes, 1}, kind, stream);
}

cudaError_t cudaMemcpyPeerAsync(
    void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
  return copy_call(
      "cudaMemcpyPeerAsync", {to, bytes, from, bytes, bytes, 1}, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to,
                              std::size_t to_pitch,
                              const void* from,
                              std::size_t from_pitch,
                              std::size_t width,
                              std::size_t height,
                              cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy_call(
      "cudaMemcpy2DAsync", {to, to_pitch, from, from_pitch, width, height}, kind, stream);
}

cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  return waited(set_call("cudaMemset", at, value, bytes, nullptr), nullptr);
}

cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return set_call("cudaMemsetAsync", at, value, bytes, stream);
}

}  // extern "C"
