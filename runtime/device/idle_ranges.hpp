// Idle large memory of a pool: ranges of a few segments that are split for smaller requests and
// merged again with idle neighbours.
//
// So memory that activations leave serves gradients of any size: the pool needs the larger of the
// two, not their sum.
//
// A merged range remembers, for each of its parts, the pending work of other queues. A block that
// is cut from it waits only for work on its own bytes. Otherwise the stream of one pipeline stage
// would wait for the stream of another that only borrowed neighbouring memory. The choice of memory
// does not depend on the progress of those queues.

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

/// Pending work of other queues on a piece of memory.
using used_events = std::vector<std::shared_ptr<device_event>>;

/// The idle ranges of one pool, guarded by its mutex. The choice depends on the sequence of
/// requests, not on addresses: a run that repeats the same steps needs no more memory in later
/// ones.
class idle_ranges {
 public:
  struct range {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    used_events used = {};  ///< must have passed before the memory is written
  };

  /// Takes the beginning of the smallest range that is large enough; among equal ones, of the
  /// oldest segment. Empty if there is none.
  std::optional<range> take(std::size_t bytes);
  /// Adds a new segment from the system; all of it is idle.
  void add_segment(std::byte* at, std::size_t bytes);
  /// Returns memory that `take` gave; all of it has the same uses. Breaks promise POOL-3 unless it
  /// lies in a segment.
  void give(range x);
  /// Removes and returns the segments that are entirely idle.
  std::vector<range> take_whole_segments();
  /// Total size of all segments, in bytes.
  std::size_t held() const { return held_; }

 private:
  struct segment {
    std::size_t bytes = 0;
    std::uint64_t number = 0;
  };
  /// [begin, end) and the pending work of other queues on it.
  struct used_part {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    used_events by = {};
  };
  /// Parts without an entry in `used` have no pending work.
  struct idle_range {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    std::vector<used_part> used = {};
  };
  /// Position of a range: (segment number, offset).
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

/// Size of the next segment for a request of `bytes` by a pool that holds `held`: at least an
/// eighth of `held`, up to 512 MiB, if there is room (device_memory.hpp). So segments stay few and
/// neighbours can merge.
std::size_t segment_size(std::size_t bytes, std::size_t held);

}  // namespace troupe::runtime
