// The devices' memory: one range of addresses of this process, closed (PROT_NONE) whenever no
// stream is carrying out an item, so that a host access faults; and pinned memory of the host.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace troupe::emulator {

/// While one stands, device memory is open, to every thread of the process.
class memory_access {
 public:
  memory_access();
  ~memory_access();
  memory_access(const memory_access&) = delete;
  memory_access& operator=(const memory_access&) = delete;
};

struct memory_block {
  std::byte* at;
  std::size_t bytes;
  int device;
};

/// What lies in memory that nobody has written: not a number as float, double, bf16 or fp16, and
/// far outside of every array as an index.
constexpr std::uint16_t poison = 0xffa5;

/// Filled with the poison, in its first MiB at least; null if the device has not as much left.
/// Aligned to 256 bytes; behind it lie at least as many that belong to nobody.
void* allocate_device(int device, std::size_t bytes);

/// False if nothing begins there. Filled with the poison again. Says who wrote past an end.
bool free_device(void* at);
void free_all_of(int device);

/// The block in which an address lies.
std::optional<memory_block> device_block(const void* at);

/// Whether an address lies in the range of the devices, allocated or not, and of which.
std::optional<int> device_of(const void* at);

std::size_t free_bytes(int device);

/// Of cudaHostAlloc or cudaHostRegister. Null, or false, where the system or the caller is wrong.
void* allocate_pinned(std::size_t bytes);
bool free_pinned(void* at);
bool register_pinned(void* at, std::size_t bytes);
bool unregister_pinned(void* at);
bool is_pinned(const void* at);

}  // namespace troupe::emulator
