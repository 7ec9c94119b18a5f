// Copies device tensors to pinned host memory, for a wire that reads only host memory.

#pragma once

#include "runtime/core/ids.hpp"
#include "runtime/tensor/tensor.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace troupe::runtime {

/// A thread that copies device tensors piece by piece and hands the pieces on. Two pieces of a
/// tensor are in progress: the device copies one while the wire sends the other. It uses its own
/// queue per device, so compute lanes are not delayed.
///
/// A tensor that is not written yet does not block others: it may wait, through its queue, for a
/// tensor that must leave first. Such tensors are polled, first after 20 us, then less and less
/// often, at least every millisecond.
class wire_stager {
 public:
  struct piece {
    std::span<const std::byte> bytes;  ///< in host memory
    std::uint64_t begin = 0;           ///< offset in the tensor
    std::shared_ptr<const void> keep;
    std::function<void(bool)> done;  ///< call once: true when the bytes were taken
  };
  struct order {
    tensor what;  ///< a published device tensor
    std::uint64_t begin = 0, end = 0;
    generation_id generation = {};
    // Called on the stager's thread; nothing is delivered after one of the last two.
    std::function<void(piece)> deliver;
    std::function<void(std::string)> failed;
    std::function<void()> ended;  ///< the generation has ended
  };

  /// `as_it_lies`: hands on the whole range in device memory as one piece, once it is written.
  wire_stager(std::size_t piece_bytes, bool as_it_lies);
  ~wire_stager();  ///< drops what was not delivered
  wire_stager(const wire_stager&) = delete;
  wire_stager& operator=(const wire_stager&) = delete;

  void submit(order what);  ///< any thread
  /// Drops unfinished work of this and older generations soon. Any thread.
  void end_generation(generation_id last);

 private:
  struct job;
  struct copier {
    std::shared_ptr<device_queue> queue;
    memory_pool pool;
  };
  /// A piece with its queued copy.
  struct copied {
    std::shared_ptr<job> of;
    piece what;
    std::shared_ptr<device_event> when;
  };

  void work();
  std::shared_ptr<job> next();
  void advance(const std::shared_ptr<job>& x);
  void drop(const std::shared_ptr<job>& x);
  bool is_ended(const job& x) const;
  copied copy_next(const std::shared_ptr<job>& x);
  copier& copier_of(int device);

  /// Pieces in a wire keep it alive after the stager has ended.
  struct inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::shared_ptr<job>> open;     ///< not handed on completely
    std::deque<std::shared_ptr<job>> ready;  ///< to be continued when written
    generation_id ended = {};
    bool over = false;
  };

  const std::size_t piece_bytes_;
  const bool as_it_lies_;
  const std::shared_ptr<inbox> inbox_ = std::make_shared<inbox>();
  std::map<int, copier> copiers_;  ///< used only by the thread
  std::jthread thread_;
};

}  // namespace troupe::runtime
