// The bytes of a data set's file, wherever it lies: mapped, or an object that is read by ranges.

#pragma once

#include "runtime/object/object_store.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Any thread.
class byte_source {
 public:
  virtual ~byte_source() = default;

  virtual std::uint64_t size() const = 0;  ///< bytes

  /// The bytes [offset, offset + count), in `scratch` or where they lie already; valid as long as
  /// both this and an unchanged `scratch` are, and true once `require_intact` has returned. Throws
  /// input_error and io_error as object_store.
  virtual std::span<const std::byte> bytes(std::uint64_t offset,
                                           std::size_t count,
                                           std::vector<std::byte>& scratch) const = 0;

  /// Says that `bytes` will be asked for these soon.
  virtual void expect(std::uint64_t, std::size_t) const {}

  virtual void require_intact() const = 0;  ///< as mapped_file's
};

/// Of the file or object `path`. Throws as mapped_file and object_store.
std::unique_ptr<const byte_source> open_bytes(const std::filesystem::path& path,
                                              const object_access& objects);

/// Of an index, which is read as a whole: an object becomes a file in the folder of `objects`.
/// Throws input_error where that has none.
mapped_file open_index(const std::filesystem::path& path, const object_access& objects);

}  // namespace troupe::runtime
