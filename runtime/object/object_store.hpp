// Objects of an S3 service, read by ranges. What is read is one state of each object: size and ETag
// are pinned when it is first asked for, and an object that changes afterwards is refused.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/core/file.hpp"
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
  std::size_t chunk = std::size_t(2) << 20;     ///< bytes of one request; docs/decisions/0021
  std::size_t memory = std::size_t(512) << 20;  ///< bytes of chunks that are kept
  std::size_t ahead = std::size_t(64) << 20;    ///< bytes of them read before they are asked for
  int readers_ahead = 4;                        ///< threads that do so, a request each
  int attempts = 6;                             ///< of one request
  std::chrono::milliseconds first_pause{200};   ///< before the second attempt, then twice as long
  std::chrono::milliseconds longest_pause{10000};
  std::chrono::seconds connect{10};  ///< until a connection stands
  std::chrono::seconds silence{20};  ///< with less than 1 KiB a second: an attempt has failed
  /// For what is asked for when the run is told to end: attempts that are turned away at once all
  /// fit into it, and clusters kill after 30 s.
  std::chrono::milliseconds grace{10000};
};

/// An object's state.
struct object_facts {
  std::uint64_t size = 0;  ///< bytes
  std::string etag;        ///< with its quotes

  friend bool operator==(const object_facts&, const object_facts&) = default;
};

/// Copies share pins, connections and kept chunks. Any thread; a read blocks until its chunk is
/// here or has failed for good.
///
/// Connection errors, 429 and 5xx are tried again, with pauses, `attempts` times in all. Then, and
/// at once for all else, a function throws: input_error for what the user can mend (no such object,
/// no permission, an object that changed, a wrong endpoint), io_error for a service that fails.
/// Both name bucket, key, HTTP status and the service's code; no text has a credential. io_error,
/// too, once the run was told to end (end_by).
class object_store {
 public:
  /// Of the service that the environment names (see service_from), which is asked for at the first
  /// use.
  object_store();
  explicit object_store(object_service service, const object_limits& limits = {});

  /// Size and ETag, pinned by the first call.
  object_facts facts(const object_url& object) const;

  /// As facts(); nothing where there is no such object. A service answers 403 instead of 404 to
  /// keys that may not list the bucket, so that this, too, is nothing.
  std::optional<object_facts> find(const object_url& object) const;

  /// The bytes [offset, offset + out.size()) of the pinned state, by chunks that are kept in
  /// memory, of which the one that was used longest ago goes first. Reading beyond the end is a
  /// broken promise.
  void read(const object_url& object, std::uint64_t offset, std::span<std::byte> out) const;

  /// Says that these bytes will be read soon: their chunks are fetched meanwhile, `ahead` bytes of
  /// them at most (of `memory` at most a half), until they are read. What does not fit, does not
  /// come at the first attempt, or is no part of a pinned object waits for its read, which alone
  /// says what is wrong. Throws io_error where the system gives no thread.
  void expect(const object_url& object, std::uint64_t offset, std::uint64_t size) const;

  /// The whole object as a file in `folder`, which is made where it is missing; the file is used
  /// again as long as the object and the file are unchanged. What a killed process left of it goes
  /// when it is a day old.
  mapped_file kept(const object_url& object, const std::filesystem::path& folder) const;

  /// For all copies: once `ending` is cancelled, what waits for the service, or comes to, ends:
  /// after `grace`, and a second at most, with io_error.
  void end_by(const cancel_token& ending, std::chrono::milliseconds grace) const;
  void end_by(const cancel_token& ending) const;  ///< after object_limits::grace

 private:
  struct state;
  std::shared_ptr<state> state_;
};

/// How paths that name objects are opened; those of files need none of it.
struct object_access {
  object_store store = {};
  std::optional<std::filesystem::path> cache = {};  ///< for what is read as a whole
};

}  // namespace troupe::runtime
