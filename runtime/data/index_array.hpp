// Arrays of integers in memory or in numpy's .npy files (version 1.0, little-endian, C order).

#pragma once

#include "runtime/file/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

enum class index_type : std::uint8_t { i32, u32, i64 };

/// Type and extents, outermost first; an index has one or two dimensions.
struct index_shape {
  index_type type = index_type::i64;
  std::vector<std::int64_t> extents;

  std::size_t elements() const;
  std::size_t bytes() const;
  /// The header of the .npy file, a multiple of 64 bytes; the same bytes that numpy.save writes.
  std::string npy_header() const;
};

/// Owned memory or a mapped .npy file. Movable; any number of threads may read.
class index_array {
 public:
  index_array() = default;

  template <class T>
  index_array(index_shape shape, std::vector<T> values);

  /// Maps the file. Returns nullopt when it does not exist or has another shape; an outermost
  /// extent of -1 takes any number of rows. Later reads throw input_error when the system cannot
  /// read the file.
  static std::optional<index_array> open(const std::filesystem::path& npy, index_shape shape);

  /// Durable and atomic. Throws io_error.
  void save(const std::filesystem::path& npy) const;

  std::size_t size() const { return data_.size() / width_; }
  std::int64_t operator[](std::size_t i) const;  ///< asserts i < size() (INDEX-1)

  const index_shape& shape() const { return shape_; }
  std::string digest() const;  ///< of the bytes of the elements, 32 hexadecimal digits

 private:
  index_shape shape_;
  std::vector<std::int32_t> narrow_;
  std::vector<std::uint32_t> narrow_unsigned_;
  std::vector<std::int64_t> wide_;
  mapped_file file_;
  std::span<const std::byte> data_;  ///< points into one of the four above
  std::size_t width_ = 8;
};

}  // namespace troupe::runtime
