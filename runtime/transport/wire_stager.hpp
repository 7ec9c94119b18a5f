// Tensors of devices, for a wire that only reads the host's memory.

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

/// A thread that copies what devices wrote to pinned memory, a piece at a time, and hands the
/// pieces on: two of a tensor are under way at once, so that the device copies one while the wire
/// sends the other. Each device has a queue for it: nobody's lane is held up.
///
/// Nothing waits behind what is not written yet: a tensor that waits for another one, by what its
/// queue was told before, must not keep that one from leaving. Such tensors stand aside, and the
/// thread looks after them: after 20 us, and ever more rarely, up to a millisecond.
class wire_stager {
 public:
  struct piece {
    std::span<const std::byte> bytes;  ///< in the host's memory
    std::uint64_t begin = 0;           ///< where in the tensor
    std::shared_ptr<const void> keep;
    std::function<void(bool)> done;  ///< to be called once: true when the bytes were taken
  };
  struct order {
    tensor what;  ///< of a device, published
    std::uint64_t begin = 0, end = 0;
    generation_id generation = {};
    // On the stager's thread; after one of the last two nothing more is delivered.
    std::function<void(piece)> deliver;
    std::function<void(std::string)> failed;
    std::function<void()> ended;  ///< with its generation
  };

  /// `as_it_lies`: a piece is the whole range in the device's memory, once it has been written.
  wire_stager(std::size_t piece_bytes, bool as_it_lies);
  ~wire_stager();  ///< what was not delivered is dropped
  wire_stager(const wire_stager&) = delete;
  wire_stager& operator=(const wire_stager&) = delete;

  void submit(order what);  ///< any thread
  /// What was not handed on of this generation or an older one is dropped, soon. Any thread.
  void end_generation(generation_id last);

 private:
  struct job;
  struct copier {
    std::shared_ptr<device_queue> queue;
    memory_pool pool;
  };
  /// A piece that its queue was told to copy.
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

  /// Outlives the stager in the pieces that a wire still holds.
  struct inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::shared_ptr<job>> open;     ///< not handed on as a whole
    std::deque<std::shared_ptr<job>> ready;  ///< to be gone on with, once they are written
    generation_id ended = {};
    bool over = false;
  };

  const std::size_t piece_bytes_;
  const bool as_it_lies_;
  const std::shared_ptr<inbox> inbox_ = std::make_shared<inbox>();
  std::map<int, copier> copiers_;  ///< of the thread alone
  std::jthread thread_;
};

}  // namespace troupe::runtime
