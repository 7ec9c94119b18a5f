// Large memory that a pool keeps and nobody has now: ranges of a few segments, which are cut where
// less is asked for and grow together again where neighbours come back. So what activations leave
// serves gradients of any size, and both need as much as the larger of them, not their sum.
//
// A range that has grown together still knows what other queues have to do with each of its parts:
// a block that is cut from it waits for those who used the memory that it lies in, and not for who
// used what lies beside it. Otherwise the stream of one pipeline stage would wait for that of
// another, to which only a neighbour of its memory was lent. Which memory is handed out does not
// depend on how far those queues are.

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
  /// What was taken comes back, all of it with the same uses. Broken promise POOL-3 unless it lies
  /// in a segment.
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
  /// [begin, end), and what other queues have still to do with it.
  struct used_part {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    used_events by = {};
  };
  /// Of its parts that nobody else has to do with nothing is said.
  struct idle_range {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    std::vector<used_part> used = {};
  };
  /// Of a range: segment and offset.
  using place = std::pair<std::uint64_t, std::size_t>;

  static void join(std::vector<used_part>& to, std::vector<used_part> from);
  void insert(const place& where, idle_range x);
  idle_range remove(std::map<place, idle_range>::iterator which);

  std::map<std::byte*, segment> segments_;
  std::map<place, idle_range> idle_;
  std::set<std::tuple<std::size_t, std::uint64_t, std::size_t>> by_size_;
  std::uint64_t next_ = 0;
  std::size_t held_ = 0;
};

/// How much to ask the system for where `bytes` are wanted, a pool has `held`, and there is room
/// (device_memory.hpp): an eighth of that at least, up to 512 MiB, so that segments are few and
/// what lies in one can grow together.
std::size_t segment_size(std::size_t bytes, std::size_t held);

}  // namespace troupe::runtime
