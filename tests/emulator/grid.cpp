#include "tests/emulator/grid.hpp"

#include "tests/emulator/settings.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>

namespace troupe::emulator {
namespace {

struct job {
  const kernel_call& call;
  const kernel_symbols& symbols;
  dim3 grid;
  dim3 block;
  std::uint64_t seed;
  std::uint64_t blocks;
  std::uint64_t factor;  ///< start i runs block (factor * i + shift) modulo blocks
  std::uint64_t shift;

  // guarded by the pool's mutex
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
  std::optional<kernel_failure> failure = {};
  std::condition_variable done = {};
};

class pool {
 public:
  pool() {
    for (int i = 0; i < machine().threads; ++i)
      std::thread([this] { work(); }).detach();
  }

  void run(job& all) {
    std::unique_lock lock(mutex_);
    jobs_.push_back(&all);
    wake_.notify_all();
    all.done.wait(lock, [&] { return all.ended == all.blocks; });
  }

 private:
  void work() {
    block_runner runner;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !jobs_.empty(); });
      job& now = *jobs_.front();
      const std::uint64_t count = share(now);
      const std::uint64_t first = now.begun;
      now.begun += count;
      if (now.begun == now.blocks)
        jobs_.pop_front();
      const bool failed = now.failure.has_value();
      lock.unlock();
      std::optional<kernel_failure> failure;
      for (std::uint64_t i = first; i < first + count && !failed && !failure; ++i)
        failure = runner.run(task(now, i));
      lock.lock();
      if (failure && !now.failure)
        now.failure = std::move(failure);
      now.ended += count;
      if (now.ended == now.blocks)
        now.done.notify_all();
    }
  }

  /// Number of blocks that a thread takes at once: large against the cost of taking them, small
  /// enough that the threads end together.
  static std::uint64_t share(const job& of) {
    const std::uint64_t left = of.blocks - of.begun;
    return std::max<std::uint64_t>(1, left / std::uint64_t(machine().threads * 4));
  }

  static block_task task(const job& of, std::uint64_t i) {
    __extension__ using wide = unsigned __int128;
    const auto at = std::uint64_t((wide(of.factor) * i + of.shift) % of.blocks);
    const uint3 index = {unsigned(at % of.grid.x),
                         unsigned(at / of.grid.x % of.grid.y),
                         unsigned(at / of.grid.x / of.grid.y)};
    return {.call = of.call,
            .symbols = of.symbols,
            .grid = of.grid,
            .block = of.block,
            .index = index,
            .seed = of.seed ^ (at + 1) * 0x9e3779b97f4a7c15U};
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<job*> jobs_;
};

}  // namespace

std::optional<kernel_failure> run_grid(const kernel_call& call,
                                       dim3 grid,
                                       dim3 block,
                                       std::uint64_t seed) {
  // Never destroyed: streams still work while the process ends.
  static auto* const threads = new pool;
  const std::uint64_t blocks = std::uint64_t(grid.x) * grid.y * grid.z;
  std::uint64_t random = seed;
  std::uint64_t factor = 1 + draw(random, unsigned(std::min<std::uint64_t>(blocks, 1U << 31)));
  while (std::gcd(factor, blocks) != 1)
    ++factor;
  job all{.call = call,
          .symbols = symbols_of(call.kernel),
          .grid = grid,
          .block = block,
          .seed = seed,
          .blocks = blocks,
          .factor = factor,
          .shift = draw(random, unsigned(std::min<std::uint64_t>(blocks, 1U << 31)))};
  threads->run(all);
  return std::move(all.failure);
}

}  // namespace troupe::emulator
