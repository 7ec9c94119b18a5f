// Runs one block of a kernel on one host thread. Its CUDA threads are fibers; a waiting thread
// switches to another one. The seed decides which ready thread runs next, so a kernel that relies
// on an order gives wrong results for some seed. In half of the blocks any ready thread may be
// next, and warps go on together. In the others a warp runs until it waits for another one, so it
// may be far ahead where a barrier is missing.

#pragma once

#include "tests/emulator/fibers.hpp"
#include "tests/emulator/include/cuda_runtime.h"
#include "tests/emulator/symbols.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::emulator {

/// The failure of a launch: the device's error from then on, and a text for messages.
struct kernel_failure {
  cudaError_t error;
  std::string text;
};

struct block_task {
  const kernel_call& call;
  const kernel_symbols& symbols;
  dim3 grid;
  dim3 block;
  uint3 index;
  std::uint64_t seed;
};

/// The wait of one CUDA thread.
struct waiting {
  source_location where = {};
  // at a barrier
  vote what = vote::none;
  bool predicate = false;
  // with other lanes of its warp
  warp_step step = warp_step::wait;
  unsigned mask = 0;
  std::uint64_t bits = 0;
  int argument = 0;
  int width = 32;
};

/// Each host thread that runs blocks has one and uses it alone. It keeps its fibers from block to
/// block.
class block_runner {
 public:
  /// The runner of the calling thread; null if no block runs on it.
  static block_runner* current();

  /// Empty if all threads of the block finished.
  std::optional<kernel_failure> run(const block_task& task);

  /// The running kernel, block and thread, for messages.
  std::string where() const;

  // Called by kernels, through the functions of emulated/warp.h.
  int barrier(vote what, bool predicate, source_location where);
  std::uint64_t collective(const waiting& step);
  unsigned active_lanes() const;
  [[noreturn]] void fail(cudaError_t error, std::string text);

 private:
  enum class state { fresh, ready, at_barrier, in_warp, ended };
  struct stopped {};  ///< unwinds the stack of a kernel after its launch failed

  /// A fiber and the thread that runs on it.
  struct worker {
    fiber* stack = nullptr;
    unsigned runs = 0;
  };

  struct thread {
    uint3 index = {};
    state is = state::fresh;
    worker* on = nullptr;
    waiting what;
    std::uint64_t result = 0;
  };

  struct warp {
    unsigned lanes = 0;    ///< mask of existing lanes
    unsigned waiting = 0;  ///< in a step of the warp
    unsigned ended = 0;
  };

  void start(const block_task& task);
  void resume(unsigned number);
  void unwind();
  void work(worker& self);
  void run_thread(worker& self);
  unsigned draw_ready();
  void take_up(unsigned number);
  void wait();
  void make_ready(unsigned number, std::uint64_t result);
  void ended(unsigned number);

  void open_barrier();
  void finish_if_complete(unsigned in, unsigned mask);
  std::uint64_t result_of(unsigned in, unsigned lane, unsigned lanes);
  std::uint64_t exchanged(unsigned in, unsigned lane, unsigned lanes);
  void check_mask(const waiting& step);

  std::string name(unsigned number) const;
  std::string where_in_grid() const;
  static std::string lane_names(unsigned lanes);
  std::string who_waits_where() const;
  kernel_failure described(cudaError_t error, const std::string& text) const;

  const block_task* task_ = nullptr;
  std::vector<thread> threads_;
  std::vector<warp> warps_;
  std::vector<unsigned> ready_;  ///< includes fresh threads
  std::vector<worker*> idle_;
  unsigned running_ = 0;
  unsigned alive_ = 0;
  unsigned at_barrier_ = 0;
  std::uint64_t random_ = 0;
  bool together_ = true;  ///< any ready thread may be next; else the one that became ready last
  std::optional<kernel_failure> failure_;
};

/// A uniform number below n; advances `state`.
inline unsigned draw(std::uint64_t& state, unsigned n) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t x = state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return unsigned(((x ^ (x >> 31)) >> 32) * n >> 32);
}

}  // namespace troupe::emulator
