// A bounded buffer of the newest records of a run, for viewers (docs/formats/telemetry.md).
//
// When the ring is full, it drops the oldest records and counts them. Adding a record takes
// allocations and a short lock. The first reader of a record makes its text, on the reader's
// thread. If that fails, the record has the field `unreadable` instead of its own.
//
//   WATCH-1  Adding a record never waits for a viewer, and a ring's memory is bounded.
//   WATCH-2  A viewer that continues from its last position gets each record once and in order, or
//            the number of records that were dropped in between.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// A viewer's position. Each new supervisor process begins a new epoch, which numbers its records
/// from 0.
struct viewer_position {
  std::uint32_t epoch = 0;
  std::uint64_t next = 0;  ///< number of the next record

  friend bool operator==(const viewer_position&, const viewer_position&) = default;
};

/// The position as "EPOCH:NEXT", such as "3:17". `read_viewer_position` returns an empty value for
/// other text.
std::string text_of(const viewer_position& x);
std::optional<viewer_position> read_viewer_position(std::string_view text);

/// Limits of a ring: records and bytes of its two queues. Samples have a queue of their own.
struct ring_capacities {
  std::size_t facts = 16384;
  std::size_t fact_bytes = 64 << 20;
  std::size_t samples = 4096;
  std::size_t sample_bytes = 64 << 20;
  std::size_t keys = 16384;  ///< keys of `add_newest` and `add_sample` whose newest record is kept
};

/// Thread-safe.
class record_ring {
 public:
  static constexpr std::size_t usual_bytes = 512;  ///< assumed size of a record

  /// `epoch`: number of this supervisor process among those of the run.
  explicit record_ring(std::uint32_t epoch, const ring_capacities& most = {});

  /// Makes the record's JSON object, without a line end. Called at most once, on any thread. Must
  /// own all data that it uses.
  using maker = std::function<std::string()>;

  /// Adds a record. `kind` must have static lifetime, such as "step". The final text is the object
  /// of `text`, with `kind` and the current time `at` as its first fields. `bytes`: approximate
  /// size of the text, or of the data that `text` owns.
  void add(std::string_view kind, maker text, std::size_t bytes = usual_bytes);
  /// Adds a record of an earlier supervisor process. Its time is unknown, so it has no `at`.
  void add_past(std::string_view kind, maker text);
  /// Adds the new state of one object, such as a member. A viewer that connects gets the newest
  /// record of each (kind, key).
  void add_newest(std::string_view kind, const std::string& key, maker text);
  /// Adds a measurement, as `add_newest`. Measurements have their own queue, so they never displace
  /// other records.
  void add_sample(std::string_view kind, const std::string& key, std::size_t bytes, maker text);
  struct record {
    std::uint64_t number = 0;
    std::string_view kind;
    std::string text;
    std::uint64_t dropped = 0;  ///< records dropped between the previous one and this
  };
  struct pulled {
    std::vector<record> records;  ///< in order of their numbers
    viewer_position next;         ///< for the next call
    std::uint64_t dropped = 0;    ///< records dropped after the last of `records`
    bool other_epoch = false;     ///< the position had another epoch; reading began at the oldest

    std::uint64_t all_dropped() const;  ///< since the requested position, of all kinds
  };
  /// The records from position `from` on. Examines at most `most` records and returns about `bytes`
  /// of text. `kinds`: the kinds to return; empty: all.
  pulled since(viewer_position from,
               std::size_t most,
               std::size_t bytes,
               const std::vector<std::string>& kinds = {}) const;

  /// The records for a viewer that connects: `steps` step records, evenly spaced and with the
  /// newest; the newest `others` other records; the newest record of each key. At most `bytes` of
  /// text: takes records of keys, then others, each from the newest on, and counts the rest as
  /// dropped.
  pulled beginning(std::size_t steps,
                   std::size_t others,
                   std::size_t bytes = std::size_t(-1)) const;
  /// The newest record of each key.
  pulled newest() const;

  viewer_position end() const;  ///< after the newest record
  /// The position with `newest` records from there to the end, or fewer if the ring has fewer.
  viewer_position before_end(std::uint64_t newest) const;

 private:
  struct entry;
  using pointer = std::shared_ptr<entry>;
  struct queue {
    std::size_t capacity;
    std::size_t most_bytes;
    std::deque<pointer> entries = {};  ///< ascending numbers
    std::size_t bytes = 0;
  };
  using key = std::pair<std::string_view, std::string>;

  struct label {
    std::string_view kind;
    const std::string* key = nullptr;
    std::size_t bytes = usual_bytes;
    bool past = false;
  };
  void add(queue& to, const label& of, maker text);
  static record read(const pointer& x);
  static void read_newest(std::vector<pointer> from, std::size_t& bytes, pulled& to);
  std::uint64_t oldest() const;  ///< number; `next_` if empty. Needs the lock.

  const std::uint32_t epoch_;
  const std::size_t keys_;
  mutable std::mutex mutex_;
  queue facts_, samples_;
  std::map<key, pointer> newest_;
  std::uint64_t next_ = 0;
};

}  // namespace troupe::runtime
