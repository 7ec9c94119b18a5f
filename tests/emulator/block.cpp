#include "tests/emulator/block.hpp"

#include <map>
#include <utility>

constinit thread_local uint3 threadIdx = {};
constinit thread_local uint3 blockIdx = {};
constinit thread_local dim3 blockDim = {};
constinit thread_local dim3 gridDim = {};

namespace troupe::emulator {
namespace {

constinit thread_local block_runner* active = nullptr;

std::string text_of(uint3 v) {
  return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
}

}  // namespace

block_runner* block_runner::current() {
  return active;
}

std::optional<kernel_failure> block_runner::run(const block_task& task) {
  start(task);
  poison_shared(task.symbols);
  while (!ready_.empty() && !failure_) {
    const unsigned next = draw_ready();
    ready_.pop_back();
    resume(next);
  }
  if (alive_ > 0 && !failure_)
    failure_ = described(cudaErrorLaunchFailure, who_waits_where());
  if (failure_)
    unwind();
  active = nullptr;
  task_ = nullptr;
  return std::exchange(failure_, std::nullopt);
}

void block_runner::start(const block_task& task) {
  task_ = &task;
  active = this;
  blockIdx = task.index;
  blockDim = task.block;
  gridDim = task.grid;
  random_ = task.seed;
  together_ = draw(random_, 2) == 0;
  alive_ = task.block.x * task.block.y * task.block.z;
  at_barrier_ = 0;
  threads_.assign(alive_, {});
  warps_.assign((alive_ + 31) / 32, {});
  ready_.clear();
  for (unsigned i = 0; i < alive_; ++i) {
    const unsigned x = i % task.block.x, row = i / task.block.x;
    threads_[i].index = {x, row % task.block.y, row / task.block.y};
    warps_[i / 32].lanes |= 1U << (i % 32);
    ready_.push_back(i);
  }
}

/// Draws one ready thread and moves it to the end of ready_.
unsigned block_runner::draw_ready() {
  if (together_)
    std::swap(ready_[draw(random_, unsigned(ready_.size()))], ready_.back());
  return ready_.back();
}

void block_runner::resume(unsigned number) {
  worker* on = threads_[number].on;
  if (threads_[number].is == state::fresh && !idle_.empty()) {
    on = idle_.back();
    idle_.pop_back();
    on->runs = number;
  } else if (threads_[number].is == state::fresh) {
    on = new worker{.runs = number};  // never deleted; fibers are reused
    on->stack = new fiber([this, on] { work(*on); });
  }
  on->stack->resume();
}

void block_runner::work(worker& self) {
  for (;;) {
    run_thread(self);
    // Reuses the stack: a thread that never waited leaves it to the next one.
    while (!failure_ && !ready_.empty() && threads_[draw_ready()].is == state::fresh) {
      self.runs = ready_.back();
      ready_.pop_back();
      run_thread(self);
    }
    idle_.push_back(&self);
    self.stack->suspend();
  }
}

void block_runner::run_thread(worker& self) {
  const unsigned number = self.runs;
  threads_[number].on = &self;
  threads_[number].is = state::ready;
  take_up(number);
  try {
    task_->call();
  } catch (const stopped&) {
  }
  ended(number);
}

void block_runner::take_up(unsigned number) {
  running_ = number;
  threadIdx = threads_[number].index;
}

void block_runner::wait() {
  const unsigned self = running_;
  threads_[self].on->stack->suspend();
  if (failure_)
    throw stopped{};
  take_up(self);
}

void block_runner::make_ready(unsigned number, std::uint64_t result) {
  threads_[number].is = state::ready;
  threads_[number].result = result;
  ready_.push_back(number);
}

void block_runner::ended(unsigned number) {
  threads_[number].is = state::ended;
  --alive_;
  if (failure_)
    return;
  if (alive_ > 0 && at_barrier_ == alive_)
    open_barrier();
  const unsigned in = number / 32;
  warps_[in].ended |= 1U << (number % 32);
  for (unsigned lane = 0; lane < 32 && warps_[in].waiting != 0; ++lane)
    if ((warps_[in].waiting >> lane & 1U) != 0)
      finish_if_complete(in, threads_[in * 32 + lane].what.mask);
}

/// Ends all started threads, to free their fibers.
void block_runner::unwind() {
  for (unsigned i = 0; i < threads_.size(); ++i)
    if (threads_[i].is != state::fresh && threads_[i].is != state::ended)
      threads_[i].on->stack->resume();
}

void block_runner::fail(cudaError_t error, std::string text) {
  if (!failure_)
    failure_ = described(error, "thread " + name(running_) + ": " + text);
  throw stopped{};
}

std::string block_runner::where_in_grid() const {
  return "kernel " + task_->symbols.name + ", block " + text_of(task_->index) + " of a grid "
         + text_of(task_->grid) + " of blocks " + text_of(task_->block);
}

std::string block_runner::where() const {
  return where_in_grid() + ", thread " + name(running_);
}

kernel_failure block_runner::described(cudaError_t error, const std::string& text) const {
  return {error, where_in_grid() + ": " + text};
}

std::string block_runner::name(unsigned number) const {
  return text_of(threads_[number].index);
}

std::string block_runner::who_waits_where() const {
  std::map<std::string, std::pair<unsigned, unsigned>> seen;  // place: first thread, count
  for (unsigned i = 0; i < threads_.size(); ++i) {
    const auto& one = threads_[i];
    std::string where = "have ended";
    if (one.is == state::at_barrier || one.is == state::in_warp)
      where = std::string("wait ") + (one.is == state::in_warp ? "for their warp" : "at a barrier")
              + " at " + one.what.where.file + ":" + std::to_string(one.what.where.line);
    ++seen.try_emplace(where, i, 0).first->second.second;
  }
  std::string text = "its threads diverged and none can continue:";
  for (const auto& [where, who] : seen)
    text += (text.back() == ':' ? " " : "; ") + std::to_string(who.second) + " " + where
            + ", the first is thread " + name(who.first);
  return text;
}

}  // namespace troupe::emulator
