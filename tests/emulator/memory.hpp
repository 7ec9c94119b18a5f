// Device memory: one address range of this process. It is closed (PROT_NONE) while no stream
// carries out an item, so host accesses fault. Also pinned host memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace troupe::emulator {

/// Opens device memory to all threads of the process for its lifetime.
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

/// Contents of unwritten memory: NaN as float, double, bf16 and fp16; as an index, far outside of
/// all arrays.
constexpr std::uint16_t poison = 0xffa5;

/// Allocates memory aligned to 256 bytes, with a guard of at least 256 bytes behind it. At least
/// the first MiB holds the poison. Null if the device has too little memory left.
void* allocate_device(int device, std::size_t bytes);

/// Frees a block and poisons it again. False if no block begins there. Reports a write past its
/// end.
bool free_device(void* at);
void free_all_of(int device);

/// The block that contains an address.
std::optional<memory_block> device_block(const void* at);

/// The device with a range that contains the address, allocated or not.
std::optional<int> device_of(const void* at);

std::size_t free_bytes(int device);

/// Memory of cudaHostAlloc or cudaHostRegister. Null, or false, on an error of the system or the
/// caller.
void* allocate_pinned(std::size_t bytes);
bool free_pinned(void* at);
bool register_pinned(void* at, std::size_t bytes);
bool unregister_pinned(void* at);
bool is_pinned(const void* at);

}  // namespace troupe::emulator
