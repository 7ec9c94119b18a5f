// The ledger: the committed steps, in order. It outlives its supervisor, so that a successor knows
// the progress of the run and repeated steps can be compared with their first result.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/state/ledger_record.hpp"
#include "runtime/state/training_position.hpp"
#include "runtime/telemetry/growing_file.hpp"
#include "runtime/telemetry/recorder.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// A committed step: the position after it and the digests of its state.
struct committed_step {
  training_position at;
  digest state = {};
  std::map<std::string, digest> parts = {};  ///< digests of the state by parameter
};

/// LEDGER-2: a step ran again with another result. One of the two computations was wrong.
class replay_differs : public broken_promise {
 public:
  using broken_promise::broken_promise;
};

/// Thread-safe.
///
///   LEDGER-1  A step is committed once; the next one is the step after it.
///   LEDGER-2  A step that runs again gives the same state as before.
///   LEDGER-3  A superseded supervisor writes no more: it may have hung and continue later.
///   LEDGER-4  A written ledger is complete: reading it again makes an equal ledger.
class step_ledger {
 public:
  ~step_ledger();

  /// Restricts writing to the supervisor of this epoch and its successors.
  void belongs_to(std::uint32_t epoch);
  std::uint32_t epoch() const;  ///< of the current writer; 0: the first supervisor
  /// A supervisor writes through a pen; no successor takes over while it holds one. Throws
  /// `cancelled` if the epoch has a successor (LEDGER-3).
  class pen;
  pen by(std::uint32_t epoch);

  /// Also writes all further records to this file with write(2), so that they survive the death
  /// of this process: when a pen is released, and in `flush`. Call it before `begin`. A failed
  /// write is logged once and retried with the next record; a full disk does not stop the run. A
  /// hanging disk blocks only the writing thread. A file that is removed is written again,
  /// complete, with the next record. If the file is truncated, the missing part is lost, which is
  /// logged once as an error. Records about checkpoints and local states are made durable in the
  /// background. Throws io_error if the file cannot be opened.
  void write_down(const std::filesystem::path& file);
  bool is_written_down() const;
  /// If another thread is writing, it or the next writer writes these records.
  void flush();
  /// A callback with the written lines and the size of the file after them. Runs on the writing
  /// thread under a lock of this ledger, so it must not call the ledger.
  using written = std::function<void(std::uint64_t size, const std::string& lines)>;
  void when_written(written told);
  /// Applies the records of another ledger to this one. The digests by parameter are not in them.
  /// Breaks LEDGER-1; throws replay_differs.
  void take_up(const std::vector<ledger_record>& all);
  /// Takes up the ledger file of a dead process and appends further records; removes an unfinished
  /// last line. The dead run may have no `begin` record. Throws input_error if the file is damaged,
  /// and as `take_up` and `write_down`.
  void go_on_in(const std::filesystem::path& file);

  /// The start of the run; call it before all else.
  void begin(const training_position& at);
  /// The identity of the job, for a restart after all of its processes have died
  /// (ledger_beyond.hpp).
  void is_of(const ledger::job& x);
  bool says_job() const;

  /// Commits a new step. Breaks LEDGER-1.
  void commit(committed_step step);
  /// Compares a repeated step with its first result. Throws replay_differs with the step and the
  /// differing parameters, if they are still known.
  void replay(const committed_step& step);

  std::uint64_t newest() const;  ///< newest iteration; before the first commit, the start
  /// The position after a step; empty: no longer stored.
  std::optional<training_position> position(std::uint64_t iteration) const;
  /// Stores the position of a state that the run may go back to: a checkpoint in progress, or a
  /// step that goes to local disks. Keeps the newest few of each kind separately, so that local
  /// steps do not evict the position of a save.
  void keep_position(const training_position& at, bool local = false);
  digest state(std::uint64_t iteration) const;  ///< after that step; zero for the start
  /// True if the step was skipped. Works for all committed steps, false for others.
  bool was_left_out(std::uint64_t iteration) const;

  /// Stores a fact for monitors and returns its number, from 1. A monitor that restarts sees each
  /// fact once. Keeps the newest few hundred.
  std::uint64_t tell(watched fact);
  std::vector<std::pair<std::uint64_t, watched>> facts() const;  ///< ascending by number

  void add(const restart& x);
  std::vector<restart> restarts() const;

  /// For each process that hosts ranks: the process that keeps their states.
  void keepers(std::vector<int> of);
  std::vector<int> keepers() const;

  /// Called by the launcher, which a succeeding supervisor takes over.
  void avoid(const ledger::avoided& x);
  std::set<ledger::avoided> avoided() const;

  void saved(std::uint64_t iteration);
  std::optional<std::uint64_t> newest_saved() const;
  void validated(std::uint64_t iteration);  ///< its loss was reported
  std::optional<std::uint64_t> newest_validated() const;
  void tested();
  bool is_tested() const;
  void command(const ledger::commanded& x);
  std::vector<ledger::commanded> commands() const;  ///< in the order they were given
  void drain(const std::string& why);               ///< an early end was requested
  std::optional<std::string> draining() const;

 private:
  void open(const std::filesystem::path& file, bool append);
  void note(const ledger_record& x);
  void tell(growing_file::past x);

  static constexpr std::size_t kept_whole = 3;  ///< steps with digests by parameter and position
  static constexpr std::size_t kept_facts = 256;
  static constexpr std::size_t kept_positions = 64;  ///< of each kind

  std::mutex writers_;       ///< locked first
  std::uint32_t epoch_ = 0;  ///< changes under both mutexes
  mutable std::mutex mutex_;
  std::uint64_t start_ = 0;
  std::vector<digest> states_;  ///< after each step, from start_ + 1 on
  std::vector<bool> left_out_;  ///< for each of these steps
  std::deque<committed_step> whole_;
  std::map<std::uint64_t, training_position> positions_;
  std::set<std::uint64_t> local_;  ///< positions of local steps only
  std::deque<watched> facts_;
  std::uint64_t told_ = 0;
  std::vector<restart> restarts_;
  std::optional<std::uint64_t> saved_, validated_;
  bool tested_ = false;
  std::optional<std::string> draining_;
  std::vector<ledger::commanded> commands_;
  std::vector<int> keepers_;
  std::set<ledger::avoided> avoided_;
  bool says_job_ = false;

  bool writes_down_ = false;
  std::string unwritten_;  ///< complete lines
  bool syncs_ = false;     ///< the next write must be durable
  std::mutex file_mutex_;  ///< guards the following members; locked before mutex_
  std::optional<growing_file> file_;
  written told_written_;
  std::filesystem::path path_;
  bool refused_ = false;                 ///< the last write failed, and this was logged
  bool restored_ = false, cut_ = false;  ///< these were logged
};

class step_ledger::pen {
 public:
  pen(step_ledger& of, std::unique_lock<std::mutex> held) : of_(of), held_(std::move(held)) {}
  pen(pen&&) = default;
  ~pen() {
    if (!held_.owns_lock())
      return;
    held_.unlock();
    of_.flush();
  }
  step_ledger* operator->() const { return &of_; }

 private:
  step_ledger& of_;
  std::unique_lock<std::mutex> held_;
};

}  // namespace troupe::runtime
