// Reads and writes GGUF, the model files of llama.cpp (FOREIGN-BYTES). docs/formats/gguf.md
// specifies what is supported; gguf_model.hpp gives their tensors the names of the Hub.

#pragma once

#include "runtime/checkpoint/gguf_blocks.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tensor/shape.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The values are those in the files.
enum class gguf_type : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

struct gguf_value {
  gguf_type type = gguf_type::u32;
  gguf_type element = gguf_type::u32;  ///< of an array
  nlohmann::json value;

  friend bool operator==(const gguf_value&, const gguf_value&) = default;
};

/// Keys with their values; the order is that of the file.
using gguf_metadata = std::vector<std::pair<std::string, gguf_value>>;

struct gguf_tensor {
  std::string name;
  block_type type = block_type::f32;
  shape extents;           ///< outermost first; the file has them innermost first
  std::size_t offset = 0;  ///< of its blocks, in bytes from the start of the file
  std::size_t bytes = 0;
};

/// True if a regular file begins with the four letters of the format.
bool is_gguf_file(const std::filesystem::path& path);

/// A memory-mapped GGUF file of version 2 or 3. The constructor checks everything but the elements:
/// metadata (at most 4 million values), types, extents, and offsets inside the file without
/// overlaps. Immutable and thread-safe.
class gguf_file {
 public:
  /// Throws input_error with the file, the field, its offset and the remedy.
  explicit gguf_file(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const gguf_metadata& metadata() const { return metadata_; }
  /// Returns null if there is no such key.
  const nlohmann::json* find(std::string_view key) const;
  const std::vector<gguf_tensor>& tensors() const { return tensors_; }
  const gguf_tensor* find_tensor(std::string_view name) const;

  std::span<const std::byte> bytes(const gguf_tensor& x) const {
    return file_.bytes().subspan(x.offset, x.bytes);
  }
  /// Everything before the blocks of the tensors.
  std::span<const std::byte> header() const { return file_.bytes().first(data_); }
  void require_intact() const { file_.require_intact(); }

  /// Reads elements [first, first + out.size()), row-major.
  void read(const gguf_tensor& x, std::int64_t first, std::span<float> out) const;

 private:
  void read_header();

  std::filesystem::path path_;
  mapped_file file_;
  std::size_t data_ = 0;
  gguf_metadata metadata_;
  std::vector<gguf_tensor> tensors_;
  std::map<std::string_view, std::size_t> keys_, names_;  // point into the vectors
};

/// The bytes of a tensor with these extents, whose last one is a multiple of the type's block.
std::uint64_t gguf_bytes(block_type type, const shape& extents);

/// Writes a file of version 3. Equal arguments give equal bytes.
class gguf_writer {
 public:
  /// Writes everything before the blocks. Offsets and bytes of `tensors` are not read.
  gguf_writer(const std::filesystem::path& path,
              const gguf_metadata& metadata,
              std::vector<gguf_tensor> tensors);

  /// Rows of the tensors, in their order; a call has rows of one tensor. Throws input_error for
  /// elements beyond the type.
  void add(std::span<const float> rows);

  std::uint64_t size() const { return out_.size(); }
  /// The file appears under its name and is durable. Breaks GGUF-4 if rows are missing.
  void commit();

 private:
  void pad();

  file_writer out_;
  std::vector<gguf_tensor> tensors_;
  std::size_t at_ = 0;        // tensor
  std::int64_t written_ = 0;  // of its elements
  std::vector<std::byte> blocks_;
};

}  // namespace troupe::runtime
