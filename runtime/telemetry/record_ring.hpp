// The newest records of a run, for viewers (docs/formats/telemetry.md). Bounded: the oldest are
// dropped and counted. Adding a record takes an allocation and a short lock; its text is made when
// a viewer first asks for it, on the viewer's thread.
//
//   WATCH-1  Adding a record never waits for a viewer, and a ring's memory is bounded.
//   WATCH-2  A viewer that asks again from its last position gets each record once and in order, or
//            the number of records that were dropped between.

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

/// A viewer's position. A supervisor's process begins a new epoch with number 0.
struct viewer_position {
  std::uint32_t epoch = 0;
  std::uint64_t next = 0;  ///< number of the next record

  friend bool operator==(const viewer_position&, const viewer_position&) = default;
};

/// "3:17". `read_viewer_position` returns none for another text.
std::string text_of(const viewer_position& x);
std::optional<viewer_position> read_viewer_position(std::string_view text);

/// Maximum numbers of records.
struct ring_capacities {
  std::size_t facts = 16384;
  std::size_t fact_bytes = 64 << 20;
  std::size_t samples = 4096;
  std::size_t sample_bytes = 64 << 20;
  std::size_t keys = 16384;  ///< with a newest record
};

/// Any thread.
class record_ring {
 public:
  static constexpr std::size_t usual_bytes = 512;  ///< of a record

  /// `epoch`: of the supervisor's process.
  explicit record_ring(std::uint32_t epoch, const ring_capacities& most = {});

  /// Makes a JSON object without a line end. Called at most once, on any thread; must own all it
  /// refers to.
  using maker = std::function<std::string()>;

  /// `kind`, such as "step", has static lifetime; viewers select kinds. The record's text is the
  /// object of `text` with `kind` and the present time as `at` in front. `bytes`: about the size of
  /// the text, or of what `text` owns.
  void add(std::string_view kind, maker text, std::size_t bytes = usual_bytes);
  /// Same, for a fact that an earlier process told: its time is unknown, so it has no `at`.
  void add_past(std::string_view kind, maker text);
  /// Same as `add`, for the state of one thing, such as a member: a viewer that begins gets the
  /// newest record of each key.
  void add_newest(std::string_view kind, const std::string& key, maker text);
  /// Same, for measurements, which are dropped apart from other records.
  void add_sample(std::string_view kind, const std::string& key, std::size_t bytes, maker text);
  struct record {
    std::uint64_t number = 0;
    std::string_view kind;
    std::string text;
    std::uint64_t dropped = 0;  ///< records that were dropped since the one before
  };
  struct pulled {
    std::vector<record> records;  ///< in order of their numbers
    viewer_position next;         ///< for the next call
    std::uint64_t dropped = 0;    ///< behind the last of `records`
    bool other_epoch = false;     ///< the position was of another process: begins with the oldest

    std::uint64_t all_dropped() const;  ///< since the position, of all kinds
  };
  /// The records since `from`: at most `most`, and about `bytes` of text. Only these kinds; empty:
  /// all.
  pulled since(viewer_position from,
               std::size_t most,
               std::size_t bytes,
               const std::vector<std::string>& kinds = {}) const;

  /// The records that a viewer begins with: `steps` steps, evenly thinned with the newest among
  /// them; at most `others` other facts, the newest; the newest record of each key.
  pulled beginning(std::size_t steps, std::size_t others) const;
  /// The newest record of each key.
  pulled newest() const;

  viewer_position end() const;  ///< behind the newest record
  /// Position with at most `newest` records behind it.
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
  static void read_in_order(std::vector<pointer> from, pulled& to);
  std::uint64_t oldest() const;  ///< number; the next one if there is no record. Under the lock.

  const std::uint32_t epoch_;
  const std::size_t keys_;
  mutable std::mutex mutex_;
  queue facts_, samples_;
  std::map<key, pointer> newest_;
  std::uint64_t next_ = 0;
};

}  // namespace troupe::runtime
