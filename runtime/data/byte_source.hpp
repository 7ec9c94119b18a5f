// The bytes of a data set's file: a memory-mapped local file, or an object that is read by ranges.

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

  /// The bytes [offset, offset + count). The span points into `scratch` or into the mapped file; it
  /// is valid while this source exists and `scratch` is unchanged. The bytes are reliable once
  /// `require_intact` has returned. Throws input_error and io_error like object_store.
  virtual std::span<const std::byte> bytes(std::uint64_t offset,
                                           std::size_t count,
                                           std::vector<std::byte>& scratch) const = 0;

  /// Hint: `bytes` will soon be called for this range.
  virtual void expect(std::uint64_t, std::size_t) const {}

  virtual void require_intact() const = 0;  ///< see mapped_file
};

/// Opens the file or object at `path`. Throws like mapped_file and object_store.
std::unique_ptr<const byte_source> open_bytes(const std::filesystem::path& path,
                                              const object_access& objects);

/// Opens an index, which is read as a whole. An object is first copied to the cache folder of
/// `objects`; throws input_error when no cache folder is set.
mapped_file open_index(const std::filesystem::path& path, const object_access& objects);

}  // namespace troupe::runtime
