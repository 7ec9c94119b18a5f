// Large memory that a pool keeps and nobody has now: ranges of a few segments, which are cut where
// less is asked for and grow together again where neighbours come back. So what activations leave
// serves gradients of any size, and both need as much as the larger of them, not their sum.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace troupe::runtime {

class device_event;

/// What other queues have still to do with memory.
using used_events = std::vector<std::shared_ptr<device_event>>;

/// Of one pool, whose mutex guards it. What is handed out depends on what was asked for and given
/// back, not on addresses: a run that does the same in every step needs no more in later ones.
class idle_ranges {
 public:
  struct range {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    used_events used = {};  ///< before it is written to they have passed
  };

  /// Of the smallest range that has so much its beginning; of equal ones that of the oldest
  /// segment. Nothing: there is none.
  std::optional<range> take(std::size_t bytes);
  /// A segment that the system gave, all of it idle.
  void add_segment(std::byte* at, std::size_t bytes);
  /// What was taken comes back. Broken promise POOL-3 unless it lies in a segment.
  void give(range x);
  /// Segments of which nobody has anything, which leave.
  std::vector<range> take_whole_segments();
  /// Of all segments.
  std::size_t held() const { return held_; }

 private:
  struct segment {
    std::size_t bytes = 0;
    std::uint64_t number = 0;
  };
  /// Of a range: segment and offset.
  using place = std::pair<std::uint64_t, std::size_t>;

  void insert(const place& where, range x);
  range remove(std::map<place, range>::iterator which);

  std::map<std::byte*, segment> segments_;
  std::map<place, range> idle_;
  std::set<std::tuple<std::size_t, std::uint64_t, std::size_t>> by_size_;
  std::uint64_t next_ = 0;
  std::size_t held_ = 0;
};

/// How much to ask the system for where `bytes` are wanted and a pool has `held`: an eighth of that
/// at least, up to 512 MiB, so that segments are few and what lies in one can grow together.
std::size_t segment_size(std::size_t bytes, std::size_t held);

}  // namespace troupe::runtime
