// Reads objects of an S3 service in ranges. The first access pins size and ETag of an object; reads
// of a changed object fail.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/file/file.hpp"
#include "runtime/object/object_url.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace troupe::runtime {

struct object_service;

struct object_limits {
  std::size_t chunk = std::size_t(2) << 20;     ///< bytes per request; docs/decisions/0021
  std::size_t memory = std::size_t(512) << 20;  ///< bytes of cached chunks
  std::size_t ahead = std::size_t(64) << 20;    ///< bytes of them for prefetched chunks
  int readers_ahead = 4;                        ///< prefetching threads, one request each
  int attempts = 6;                             ///< per request
  /// Pause before the first retry; doubles with each further one.
  std::chrono::milliseconds first_pause{200};
  std::chrono::milliseconds longest_pause{10000};
  std::chrono::seconds connect{10};  ///< timeout of connecting
  std::chrono::seconds silence{20};  ///< an attempt fails after this time below 1 KiB per second
  /// Time for pending requests after the run is told to end. All retries of attempts that fail at
  /// once fit into it, and clusters kill after 30 s.
  std::chrono::milliseconds grace{10000};
};

/// The pinned state of an object.
struct object_facts {
  std::uint64_t size = 0;  ///< bytes
  std::string etag;        ///< including its quotes

  friend bool operator==(const object_facts&, const object_facts&) = default;
};

/// Copies share pins, connections and cached chunks. Thread-safe; a read blocks until its chunk
/// arrives or fails permanently.
///
/// Retries connection errors, 429 and 5xx with backoff, up to `attempts` attempts. After that, and
/// at once for other errors, throws input_error if the user can fix it (missing object, no
/// permission, changed object, wrong endpoint) or io_error if the service fails. Messages have
/// bucket, key, HTTP status and error code, but no credentials. Also throws io_error after the run
/// is told to end (end_by).
class object_store {
 public:
  /// Uses the service from the environment (see service_from), which is read at the first access.
  object_store();
  explicit object_store(object_service service, const object_limits& limits = {});

  /// Size and ETag; the first call pins them.
  object_facts facts(const object_url& object) const;

  /// Like facts(), but empty if the object does not exist. Also empty for 403: a service sends it
  /// instead of 404 if the keys may not list the bucket.
  std::optional<object_facts> find(const object_url& object) const;

  /// Reads bytes [offset, offset + out.size()) of the pinned state, through an LRU cache of chunks.
  /// Breaks OBJECT-1 beyond the end of the object.
  void read(const object_url& object, std::uint64_t offset, std::span<std::byte> out) const;

  /// Prefetches these bytes: at most `ahead` bytes (and half of `memory`) at a time, until they are
  /// read. Bytes beyond that, failed prefetches and objects without a pin are left to the read,
  /// which reports errors. Throws io_error if no thread can be started.
  void expect(const object_url& object, std::uint64_t offset, std::uint64_t size) const;

  /// Downloads the whole object to a file in `folder`, which is created if missing. Reuses the file
  /// as long as object and file are unchanged. Removes partial files of killed processes after a
  /// day.
  mapped_file kept(const object_url& object, const std::filesystem::path& folder) const;

  /// For all copies: after `ending` is cancelled, pending and later requests end with io_error
  /// after `grace` and at most one second.
  void end_by(const cancel_token& ending, std::chrono::milliseconds grace) const;
  void end_by(const cancel_token& ending) const;  ///< with object_limits::grace

 private:
  struct state;
  std::shared_ptr<state> state_;
};

/// Settings to open paths that name objects; files do not need them.
struct object_access {
  object_store store = {};
  std::optional<std::filesystem::path> cache = {};  ///< folder for objects that are read as a whole
};

}  // namespace troupe::runtime
