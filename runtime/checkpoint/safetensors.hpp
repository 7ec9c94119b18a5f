// Reads and writes the safetensors format (FOREIGN-BYTES). docs/formats/checkpoint.md specifies its
// bytes.

#pragma once

#include "runtime/checkpoint/stored_type.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tensor/shard.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::runtime {

/// Elements of a shard to write: contiguous, row-major. They must outlive the call.
struct elements_to_write {
  stored_type type = stored_type::f32;
  const void* data = nullptr;
};
using shard_to_write = tensor_shard<elements_to_write>;

/// Returns the shard that is a whole tensor.
shard_to_write whole_tensor(std::string name, stored_type type, shape extents, const void* data);

/// Returns the key of a shard in its file: "a" for a whole tensor, else "a[0:512, 128:256]".
template <class Elements>
std::string key_in_file(const tensor_shard<Elements>& x) {
  return x.part == whole(x.whole) ? x.name : x.name + to_string(x.part);
}

/// Result of write_safetensors.
struct written_tensors {
  std::uint64_t bytes = 0;        ///< of the whole file
  std::string sha256;             ///< of the whole file
  std::vector<std::string> xxh3;  ///< by shard: XXH3 of its elements, 128 bits, hex
};

/// Writes the header and the shards in the given order. Equal arguments give equal bytes. The file
/// appears under its name only after it is durable; a failure leaves nothing behind. Throws
/// io_error.
written_tensors write_safetensors(const std::filesystem::path& path,
                                  std::span<const shard_to_write> shards,
                                  const std::map<std::string, std::string>& metadata = {});

/// A tensor or a part of one in a file.
struct stored_tensor {
  std::string name;  ///< key in the file: with a box if it is a part
  stored_type type = stored_type::f32;
  shape extents;
  std::size_t offset = 0;  ///< of its elements, in bytes from the start of the file
  std::size_t bytes = 0;
};

/// A memory-mapped safetensors file. The constructor checks the whole header: types, extents, and
/// offsets inside the file without gaps or overlaps. Elements are read on demand. Immutable and
/// thread-safe.
class safetensors_file {
 public:
  /// Throws input_error with the file, the fault and the remedy.
  explicit safetensors_file(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// In the order of their elements in the file.
  const std::vector<stored_tensor>& tensors() const { return tensors_; }

  /// Returns null if there is no such tensor.
  const stored_tensor* find(std::string_view name) const;

  std::span<const std::byte> bytes(const stored_tensor& x) const {
    return file_.bytes().subspan(x.offset, x.bytes);
  }
  std::span<const std::byte> bytes() const { return file_.bytes(); }  ///< the whole file

  /// Call it after reading bytes(). Throws input_error with path and byte if the system could not
  /// read them (MAPPED-1).
  void require_intact() const { file_.require_intact(); }

  /// Reads elements [first, first + out.size()), row-major, as floats. Throws input_error if float
  /// cannot represent the type or the system cannot read the elements.
  void read(const stored_tensor& x, std::int64_t first, std::span<float> out) const;

 private:
  void read_header();

  std::filesystem::path path_;
  mapped_file file_;
  std::map<std::string, std::string> metadata_;
  std::vector<stored_tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;  // keys point into tensors_
};

}  // namespace troupe::runtime
