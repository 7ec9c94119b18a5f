#include "runtime/device/staging.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

namespace troupe::runtime {

namespace {

constexpr std::size_t piece_size = std::size_t{16} << 20;

/// Pinned pieces in flight, at most `most`: two, so that the host copies one while the device
/// copies the other.
class staging {
 public:
  static constexpr std::size_t most = 2;

  struct piece {
    memory_block block;
    std::size_t begin, bytes;
    std::shared_ptr<device_event> passed = {};
  };

  bool is_full() const { return under_way_.size() == most; }
  bool is_empty() const { return under_way_.empty(); }
  void add(piece x) { under_way_.push_back(std::move(x)); }
  /// Waits for the oldest piece and returns it.
  piece take() {
    auto out = std::move(under_way_.front());
    under_way_.pop_front();
    out.passed->wait();
    return out;
  }

 private:
  std::deque<piece> under_way_;
};

}  // namespace

void write_staged(
    memory_pool pool, device_queue& queue, void* block, const void* from, std::size_t bytes) {
  staging under_way;
  for (std::size_t begin = 0; begin < bytes;) {
    const auto n = std::min(bytes - begin, piece_size);
    staging::piece x{
        under_way.is_full() ? under_way.take().block : pool.allocate_pinned(n), begin, n};
    std::memcpy(x.block.get(), static_cast<const std::byte*>(from) + begin, n);
    queue.copy(static_cast<std::byte*>(block) + begin, x.block.get(), n);
    begin += n;
    if (begin == bytes)
      return;  // the last piece returns to the pool by itself
    x.passed = queue.mark();
    under_way.add(std::move(x));
  }
}

void read_staged(
    memory_pool pool, device_queue& queue, void* to, const void* block, std::size_t bytes) {
  staging under_way;
  memory_block spare;
  for (std::size_t begin = 0; begin < bytes || !under_way.is_empty();) {
    if (begin < bytes && !under_way.is_full()) {
      const auto n = std::min(bytes - begin, piece_size);
      staging::piece x{spare ? std::move(spare) : pool.allocate_pinned(n), begin, n};
      queue.copy(x.block.get(), static_cast<const std::byte*>(block) + begin, n);
      x.passed = queue.mark();
      under_way.add(std::move(x));
      begin += n;
      continue;
    }
    auto x = under_way.take();
    std::memcpy(static_cast<std::byte*>(to) + x.begin, x.block.get(), x.bytes);
    spare = std::move(x.block);
  }
}

}  // namespace troupe::runtime
