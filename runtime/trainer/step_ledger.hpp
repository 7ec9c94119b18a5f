// The ledger: what was committed, in order. It outlives the supervisor that wrote it, so that its
// successor knows where the run stands, and a step that runs again is held to what it was.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/telemetry/growing_file.hpp"
#include "runtime/telemetry/recorder.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/trainer/decision.hpp"
#include "runtime/trainer/ledger_record.hpp"

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

/// One committed step: where the training stands after it, and the digests of its state.
struct committed_step {
  training_position at;
  digest state = {};
  std::map<std::string, digest> parts = {};  ///< of the state, by parameter
};

/// LEDGER-2: a step ran again and came out with another state. Something was computed wrong, now or
/// then.
class replay_differs : public broken_promise {
 public:
  using broken_promise::broken_promise;
};

/// Any thread.
///
///   LEDGER-1  A step is committed once; the next one is the step after it.
///   LEDGER-2  A step that runs again comes out with the state that it had.
///   LEDGER-3  A supervisor that has a successor writes nothing any more: it may have been left
///             behind as it hung, and go on later.
///   LEDGER-4  What is written down is what has been: read again, it makes an equal ledger.
class step_ledger {
 public:
  ~step_ledger();

  /// From now on the supervisor of that epoch writes, and none before it.
  void belongs_to(std::uint32_t epoch);
  std::uint32_t epoch() const;  ///< of who writes; 0: the first
  /// What a supervisor writes by, and what belongs together by one: nobody takes over in between.
  /// LEDGER-3: throws `cancelled` where that epoch has a successor.
  class pen;
  pen by(std::uint32_t epoch);

  /// From here on everything is written down there, too, by write(2), which survives the death of
  /// this process: by a pen when it is put down, and by `flush`. Before `begin`. What the system
  /// refuses is told once, and tried again with the next record: a full disk costs no step. A disk
  /// that hangs holds who writes, and nobody else. A file that is removed meanwhile is written
  /// again with the next record, with all that it had; of one that is cut, what is missing is lost,
  /// and an error says so, once. What other states are held to, those of checkpoints and local
  /// disks, is made durable beside, and nobody waits for that. Throws io_error when it cannot be
  /// opened.
  void write_down(const std::filesystem::path& file);
  bool is_written_down() const;
  /// Where another thread writes, that is left to it, or to the next.
  void flush();
  /// Told what was written down, and the size of the file after it, by whichever thread has, with a
  /// lock of this ledger's: it calls nothing of it.
  using written = std::function<void(std::uint64_t size, const std::string& lines)>;
  void when_written(written told);
  /// What another ledger has written down, as if it had been this one; its parts of states are not
  /// known any more. Broken promise LEDGER-1; throws replay_differs.
  void take_up(const std::vector<ledger_record>& all);
  /// What a process that has died wrote down there is taken up, and everything from here on is
  /// written down after it; a last line that it had not finished is removed. It may not have begun.
  /// Throws input_error where it is damaged, and as `take_up` and `write_down`.
  void go_on_in(const std::filesystem::path& file);

  /// Where the run starts; before anything else.
  void begin(const training_position& at);
  /// For who starts that job again when all of its processes are gone (ledger_beyond.hpp).
  void is_of(const ledger::job& x);
  bool says_job() const;

  /// A step that is new. Broken promise LEDGER-1.
  void commit(committed_step step);
  /// A step that ran again. Throws replay_differs, which names the step and the parameters whose
  /// digests differ, as far as they are still known.
  void replay(const committed_step& step);

  std::uint64_t newest() const;  ///< iteration; the first is where the run started
  /// Where the training stood after a step; nothing: it is too long ago.
  std::optional<training_position> position(std::uint64_t iteration) const;
  /// Of a state that may be gone back to: a checkpoint that is being saved, or what goes to local
  /// disks. The newest few of each kind are kept: however many local steps there are while one
  /// save is under way, its position stays.
  void keep_position(const training_position& at, bool local = false);
  digest state(std::uint64_t iteration) const;  ///< after that step; zero of the start
  /// Of any step, however long ago; of none that was not committed.
  bool was_left_out(std::uint64_t iteration) const;

  /// What a monitor is told, numbered from 1 on, so that one that comes after another's death
  /// neither misses nor repeats anything: the newest few hundred are kept.
  std::uint64_t tell(watched fact);
  std::vector<std::pair<std::uint64_t, watched>> facts() const;  ///< ascending

  void add(const restart& x);
  std::vector<restart> restarts() const;

  /// Of each process that hosts ranks: which other one keeps their states. The newest counts.
  void keepers(std::vector<int> of);
  std::vector<int> keepers() const;

  /// By who starts processes, which a supervisor's successor leaves in its place.
  void avoid(const ledger::avoided& x);
  std::set<ledger::avoided> avoided() const;

  void saved(std::uint64_t iteration);
  std::optional<std::uint64_t> newest_saved() const;
  void validated(std::uint64_t iteration);  ///< its loss was told
  std::optional<std::uint64_t> newest_validated() const;
  void tested();
  bool is_tested() const;
  void drain(const std::string& why);  ///< somebody asked for an early end
  std::optional<std::string> draining() const;

 private:
  void open(const std::filesystem::path& file, bool append);
  void note(const ledger_record& x);
  void tell(growing_file::past x);

  static constexpr std::size_t kept_whole = 3;  ///< steps with their parts and positions
  static constexpr std::size_t kept_facts = 256;
  static constexpr std::size_t kept_positions = 64;  ///< of each kind

  std::mutex writers_;       ///< taken first
  std::uint32_t epoch_ = 0;  ///< changes under both
  mutable std::mutex mutex_;
  std::uint64_t start_ = 0;
  std::vector<digest> states_;  ///< after each step, from start_ + 1 on
  std::vector<bool> left_out_;  ///< of each of these
  std::deque<committed_step> whole_;
  std::map<std::uint64_t, training_position> positions_;
  std::set<std::uint64_t> local_;  ///< of these, those of local steps alone
  std::deque<watched> facts_;
  std::uint64_t told_ = 0;
  std::vector<restart> restarts_;
  std::optional<std::uint64_t> saved_, validated_;
  bool tested_ = false;
  std::optional<std::string> draining_;
  std::vector<int> keepers_;
  std::set<ledger::avoided> avoided_;
  bool says_job_ = false;

  bool writes_down_ = false;
  std::string unwritten_;  ///< whole lines
  bool syncs_ = false;     ///< they are to survive the machine, too
  std::mutex file_mutex_;  ///< of what follows; taken before mutex_
  std::optional<growing_file> file_;
  written told_written_;
  std::filesystem::path path_;
  bool refused_ = false;                 ///< the newest lines were, and that has been told
  bool restored_ = false, cut_ = false;  ///< that has been told
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
