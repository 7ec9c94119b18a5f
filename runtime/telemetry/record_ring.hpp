// The newest records of a run, for viewers. Bounded: the oldest are dropped and counted. Adding one
// costs an allocation and a lock that is held for a few instructions; the text of a record is made
// when a viewer first asks for it, on the viewer's thread.
//
//   WATCH-1  Whoever adds never waits for a viewer, and a ring's memory is bounded.
//   WATCH-2  A viewer that asks again from where it stopped gets each record once and in order, or
//            is told how many were dropped between.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Where a viewer stands. A supervisor's process begins a new epoch with number 0.
struct record_position {
  std::uint32_t epoch = 0;
  std::uint64_t next = 0;  ///< number of the next record

  friend bool operator==(const record_position&, const record_position&) = default;
};

/// "3:17". None for another text.
std::string text_of(const record_position& x);
std::optional<record_position> read_record_position(std::string_view text);

class record_ring {
 public:
  /// Holds `capacity` records at most. `epoch`: of the supervisor's process.
  explicit record_ring(std::uint32_t epoch, std::size_t capacity = 16384);

  /// `kind` such as "step", which viewers may select; static lifetime. `text` makes a JSON object
  /// without a line end. It is called once at most, on any thread, and must not refer to what may
  /// be gone by then. Any thread.
  void add(std::string_view kind, std::function<std::string()> text);

  struct record {
    std::uint64_t number = 0;
    std::string_view kind;
    std::string text;
  };
  struct pulled {
    std::vector<record> records;
    record_position next;       ///< to ask with the next time
    std::uint64_t dropped = 0;  ///< between the position and the first of `records`
    bool other_epoch = false;   ///< the position was of another process: begins with the oldest
  };
  /// What came since, `most` records and about `bytes` of text at most, of these kinds (empty: of
  /// all). Any thread.
  pulled since(record_position from,
               std::size_t most,
               std::size_t bytes,
               const std::vector<std::string>& kinds = {}) const;

  record_position end() const;  ///< behind the newest record
  /// Position with about `newest` records behind it.
  record_position before_end(std::size_t newest) const;

 private:
  struct entry;
  const std::uint32_t epoch_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<entry>> entries_;
  std::uint64_t next_ = 0;
};

}  // namespace troupe::runtime
