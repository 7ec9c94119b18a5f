#include "runtime/state/local_states.hpp"

#include "runtime/core/cancel.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/file/file.hpp"
#include "runtime/state/local_state_files.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t steps_kept = 2;
/// Timeout for a pending write when the process ends. Writes go in short pieces.
constexpr auto patience_at_end = std::chrono::seconds(5);

std::vector<fs::path> folders_in(const fs::path& dir) {
  std::vector<fs::path> out;
  std::error_code failure;
  for (fs::directory_iterator at(dir, failure), end; !failure && at != end; at.increment(failure))
    out.push_back(at->path());
  return out;
}

}  // namespace

/// Shared with the thread: if the disk hangs, the destructor leaves the thread running.
struct local_states::shared {
  using key = std::pair<int, std::uint64_t>;  ///< process, iteration

  fs::path folder;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> stop = false;
  bool runs = false;                  ///< the thread runs
  std::deque<step_to_store> waiting;  ///< at most one step per process; the first is being written
  std::map<key, stored_step> there;
  std::set<key> written;              ///< by this process
  std::atomic<bool> refused = false;  ///< a failure was logged

  /// Needs the mutex.
  bool is_storing(int process) const {
    return std::any_of(
        waiting.begin(), waiting.end(), [&](const auto& x) { return x.process == process; });
  }
  void look();
  /// `clears`: this thread holds the process's writer lock, so incomplete folders are leftovers.
  void look_in(const fs::path& of_process, bool clears);
  void loop();
  void write(const step_to_store& x);
  /// Needs the process's writer lock.
  void remove_older(const step_to_store& newest);
  fs::path path_of(const key& x) const {
    return folder / folder_of_process(x.first) / folder_of_step(x.second);
  }
};

// The folder belongs to the host: other processes may be writing there. An incomplete step without
// a writer is left by a dead process.
void local_states::shared::look() {
  for (const auto& of_process : folders_in(folder)) {
    const auto process = process_of_folder(of_process.filename().string());
    if (!process)
      continue;
    local_writer_lock lock;
    look_in(of_process, lock.try_take(folder, *process));
  }
}

void local_states::shared::look_in(const fs::path& of_process, bool clears) {
  for (const auto& step : folders_in(of_process)) {
    const auto name = step.filename().string();
    std::error_code ignored;
    if (!step_of_folder(name)) {
      if (clears)
        fs::remove_all(step, ignored);
      continue;
    }
    try {
      auto found = look_at_step(step);
      if (path_of({found.process, found.iteration}) != step)
        throw input_error("'{}' is of another process or step", step.string());
      const std::lock_guard lock(mutex);
      there[{found.process, found.iteration}] = std::move(found);
    } catch (const error& failure) {
      if (!clears)
        continue;  // it is being removed or written
      log_warning("removed an unusable local state: {}", failure.what());
      fs::remove_all(step, ignored);
    }
  }
}

void local_states::shared::loop() {
  std::unique_lock lock(mutex);
  while (!stop) {
    if (waiting.empty()) {
      changed.wait(lock);
      continue;
    }
    const auto x = waiting.front();
    lock.unlock();
    write(x);
    lock.lock();
    waiting.pop_front();
    changed.notify_all();
  }
  runs = false;
  changed.notify_all();
}

void local_states::shared::write(const step_to_store& x) {
  try {
    make_folder(folder);
    local_writer_lock writing;
    writing.take(folder, x.process);
    write_step(folder / folder_of_process(x.process), x, stop);
    stored_step done{x.process, x.iteration, {}};
    for (const auto& [rank, state] : x.states)
      done.own[rank] = state->digests.own;
    {
      const std::lock_guard lock(mutex);
      there[{x.process, x.iteration}] = std::move(done);
      written.emplace(x.process, x.iteration);
    }
    remove_older(x);
    if (refused.exchange(false))
      log_info(
          "states are written to the local disk again: those of process {}'s ranks after "
          "iteration {}",
          x.process,
          x.iteration);
  } catch (const cancelled&) {
  } catch (const std::exception& failure) {
    if (!refused.exchange(true))
      log_warning(
          "the states of process {}'s ranks after iteration {} are not on the local disk: {}; "
          "training continues, and later states are tried; until then, if a process dies together "
          "with its keeper, the run goes back to the checkpoint",
          x.process,
          x.iteration,
          failure.what());
  }
}

// Later steps are from before the run went back, or from an earlier run. Another process of this
// host may have kept that process's states before; this one has not seen its latest writes yet.
void local_states::shared::remove_older(const step_to_store& newest) {
  const int process = newest.process;
  look_in(folder / folder_of_process(process), true);
  std::vector<key> leaving;
  {
    const std::lock_guard lock(mutex);
    std::vector<key> older;
    for (const auto& [at, x] : there) {
      if (at.first != process || at.second == newest.iteration)
        continue;
      (at.second > newest.iteration ? leaving : older).push_back(at);
    }
    older.resize(older.size() - std::min(older.size(), steps_kept - 1));
    std::erase_if(older, [&](const auto& at) { return at.second == newest.common; });  // LOCAL-4
    leaving.insert(leaving.end(), older.begin(), older.end());
    for (const auto& x : leaving) {
      there.erase(x);
      written.erase(x);
    }
  }
  for (const auto& x : leaving) {
    std::error_code failure;
    fs::remove_all(path_of(x), failure);
    if (failure)
      log_warning("cannot remove '{}': {}", path_of(x).string(), failure.message());
  }
}

local_states::local_states(fs::path folder) : shared_(std::make_shared<shared>()) {
  shared_->folder = std::move(folder);
  shared_->look();
}

local_states::~local_states() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, patience_at_end, [this] { return !shared_->runs; });
}

void local_states::store(step_to_store x) {
  const std::lock_guard lock(shared_->mutex);
  auto& all = *shared_;
  if (all.written.contains({x.process, x.iteration}) || all.is_storing(x.process))  // LOCAL-3
    return;
  if (!all.runs) {
    try {
      start_thread("local states", [at = shared_] { at->loop(); }).detach();
    } catch (const io_error& failure) {
      if (!all.refused.exchange(true))
        log_warning("states are not written to the local disk: {}", failure.what());
      return;
    }
    all.runs = true;
  }
  all.waiting.push_back(std::move(x));
  all.changed.notify_all();
}

std::optional<std::uint64_t> local_states::storing(int process) const {
  const std::lock_guard lock(shared_->mutex);
  for (const auto& x : shared_->waiting)
    if (x.process == process)
      return x.iteration;
  return std::nullopt;
}

std::vector<std::uint64_t> local_states::written(int process) const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<std::uint64_t> out;
  for (const auto& [of, iteration] : shared_->written)
    if (of == process)
      out.push_back(iteration);
  return out;
}

void local_states::finish() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->waiting.empty(); });
}

std::vector<stored_step> local_states::complete() const {
  std::vector<stored_step> out;
  {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& [at, x] : shared_->there)
      out.push_back(x);
  }
  // LOCAL-3: `store` does not wait for the disk, so look at it here.
  std::erase_if(out, [this](const stored_step& x) {
    std::error_code failure;
    return !fs::exists(shared_->path_of({x.process, x.iteration}), failure);
  });
  return out;
}

// LOCAL-2.
rank_state local_states::read(int process, int rank, std::uint64_t iteration) {
  const auto step = shared_->path_of({process, iteration});
  try {
    return read_rank(step, rank);
  } catch (const error& failure) {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->there.erase({process, iteration});
      shared_->written.erase({process, iteration});
    }
    std::error_code ignored;
    fs::remove_all(step, ignored);
    throw input_error("the local state of rank {} after iteration {} cannot be used: {}",
                      rank,
                      iteration,
                      failure.what());
  }
}

const fs::path& local_states::folder() const {
  return shared_->folder;
}

fs::path local_folder_of(const fs::path& folder,
                         const std::string& identity,
                         const std::string& save) {
  return folder / fmt::format("run-{:016x}", hash64(identity + '\0' + save));
}

}  // namespace troupe::runtime
