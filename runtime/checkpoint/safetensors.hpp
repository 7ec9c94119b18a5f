// The safetensors format, written and read (FOREIGN-BYTES): docs/formats/checkpoint.md has its
// bytes.

#pragma once

#include "runtime/checkpoint/stored_type.hpp"
#include "runtime/core/file.hpp"
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

/// Of a shard to be written: contiguous, row-major; they outlive the writing.
struct elements_to_write {
  stored_type type = stored_type::f32;
  const void* data = nullptr;
};
using shard_to_write = tensor_shard<elements_to_write>;

/// All of a tensor.
shard_to_write whole_tensor(std::string name, stored_type type, shape extents, const void* data);

/// What a shard is called in a file, where it is unique: "a" when it is the whole tensor, else
/// "a[0:512, 128:256]".
template <class Elements>
std::string key_in_file(const tensor_shard<Elements>& x) {
  return x.part == whole(x.whole) ? x.name : x.name + to_string(x.part);
}

/// What was written.
struct written_tensors {
  std::uint64_t bytes = 0;        ///< of the whole file
  std::string sha256;             ///< of the whole file
  std::vector<std::string> xxh3;  ///< of the elements of each shard: XXH3, 128 bits, hex
};

/// Writes the shards in the given order, header first. The same arguments give the same bytes.
/// The file is visible under its name only when it is durable; a failure leaves nothing behind.
/// Throws io_error.
written_tensors write_safetensors(const std::filesystem::path& path,
                                  std::span<const shard_to_write> shards,
                                  const std::map<std::string, std::string>& metadata = {});

/// A tensor in a file.
struct stored_tensor {
  std::string name;  ///< its key: with a box when it is a part
  stored_type type = stored_type::f32;
  shape extents;
  std::size_t offset = 0;  ///< of its elements, from the start of the file
  std::size_t bytes = 0;
};

/// A file of tensors, mapped. Everything its header says is checked before anything is believed:
/// types, extents, offsets inside the file, neither gaps nor overlaps. Elements are not looked at
/// before they are read. Immutable: any thread.
class safetensors_file {
 public:
  /// Throws input_error that names the file, what is wrong in it, and what to do.
  explicit safetensors_file(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// In the order of their elements in the file.
  const std::vector<stored_tensor>& tensors() const { return tensors_; }

  /// Null when there is none of that name.
  const stored_tensor* find(std::string_view name) const;

  std::span<const std::byte> bytes(const stored_tensor& x) const {
    return file_.bytes().subspan(x.offset, x.bytes);
  }
  std::span<const std::byte> bytes() const { return file_.bytes(); }  ///< the whole file

  /// After `bytes` were looked at: throws input_error, with path and byte, where the system could
  /// not read them (MAPPED-1).
  void require_intact() const { file_.require_intact(); }

  /// Elements [first, first + out.size()), row-major, as floats. Throws input_error for a type that
  /// floats do not hold, and for elements that the system cannot read.
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
