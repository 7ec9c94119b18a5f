// The fault injector: says which faults and delays a job asks for, and when they strike.
// `inject` (inject.hpp) puts them between actors and their environment.

#pragma once

#include "runtime/job/job.hpp"
#include "runtime/job/planted_death.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Shared by all actors of a process. Thread-safe.
class fault_injector {
 public:
  /// Throws input_error if a fault is not of the form ACTOR@STEP or ACTOR@FIRST-LAST; throws as
  /// planted_death_from.
  explicit fault_injector(const runtime::fault_settings& settings) : fault_injector(settings, {}) {}

  /// Hooks for simulations.
  struct simulated {
    /// Called when a planted death is about to strike. False: the death is dropped.
    std::function<bool(const runtime::planted_death&)> strikes;
    /// Hangs. True: the actor continues afterwards; false: it dies.
    std::function<bool(const runtime::planted_death&)> hang;
  };
  fault_injector(const runtime::fault_settings& settings, simulated how);

  /// Throws if a fault is planted for `who` in this step. ACTOR is "supervisor", "node", "loader",
  /// "checkpointer", "monitor", "replica:R", "stage:R.P.T", "lane:R.P.T" (fails in its reduction,
  /// while its groups wait) or "wire:R.P.T" (fails in the first bucket that the communication lane
  /// reduces). The default of T, the tensor rank, is 0.
  void inject(const std::string& who, std::uint64_t step) const;

  /// True if a gradient of `who` becomes NaN in this step: "nan:R.P.T" each time that the step
  /// runs, "nan-once:R.P.T" the first time in this process.
  bool injects(const std::string& who, std::uint64_t step) const;

  /// Call it when `who` comes to this moment of the step. If a death is planted for it there, this
  /// sleeps, throws, hangs until `release`, ends the process, or returns which bit to flip. The
  /// first call for a moment also kills actors that never come to it themselves; a call for a
  /// keeper does not, because it serves another process. `has_result`: false if there is no bit to
  /// flip; wrong bits then wait for the next call.
  enum class fate : std::uint8_t { lives, wrong_bits, wrong_moment, wrong_second_moment };
  fate pass(const std::string& who,
            std::uint64_t step,
            runtime::moment_of_step at,
            bool has_result = true) const;

  /// Like `pass`, but only sleeps or hangs: for actors that come to no moment.
  void hang(const std::string& who, std::uint64_t step, runtime::moment_of_step at) const;

  /// Call it when `who` is told to end. If a hang was planted for it, hangs until `release` instead
  /// of ending. True: it continues afterwards.
  bool hang_instead(const std::string& who) const;

  /// Registers `kill` as the way to kill `who`, in place of an earlier actor of that name. For a
  /// node or a supervisor it also begins a hang (hang_instead).
  void enlist(const std::string& who, std::function<void(const std::string& why)> kill) const;

  /// `claims` is called before a planted death strikes, by any thread. False: the death has struck
  /// before, in a process that has ended.
  void claim_by(std::function<bool(const runtime::planted_death&)> claims) const;

  /// Ends all hangs: the hanging actors die.
  void release() const;

  /// Planted deaths that have not struck yet, in the syntax of the job.
  std::vector<std::string> deaths_to_come() const;

  /// Delays a lane: sleeps for a time that the seed decides.
  void delay_lane() const;

  bool delays_messages() const { return settings_.message_delay_us > 0; }

  /// Delay of a message that leaves now. The seed decides it; it is long enough that messages
  /// between two actors stay in order.
  std::chrono::nanoseconds message_delay(std::uint64_t from,
                                         std::uint64_t to,
                                         std::chrono::steady_clock::time_point now) const;

 private:
  struct injected_fault {
    std::string text, who = {};
    std::uint64_t first = 1, last = 0;  ///< steps
  };
  /// The first fault of `who` in this step; null if there is none.
  const injected_fault* find(const std::string& who, std::uint64_t step) const;

  /// Sleeps if `who` is slow at this moment, from this step or an earlier one on.
  void delay(const std::string& who, std::uint64_t step, runtime::moment_of_step at) const;

  struct death;
  void stand_still(const death& x) const;
  bool is_claimed(const death& x) const;
  struct death {
    runtime::planted_death what;
    int same_before = 0;  ///< earlier deaths with the same text
    mutable std::atomic<bool> struck = false;
    mutable std::atomic<bool> asked = false;  ///< a requested hang that has not begun
  };

  runtime::fault_settings settings_;
  simulated simulated_;
  std::vector<injected_fault> faults_;
  /// Faults that struck once, with the step.
  mutable std::set<std::pair<const injected_fault*, std::uint64_t>> struck_once_;
  std::vector<std::unique_ptr<death>> deaths_;
  mutable std::map<std::string, std::function<void(const std::string&)>> enlisted_;
  mutable std::function<bool(const runtime::planted_death&)> claims_;
  std::shared_ptr<std::atomic<bool>> released_ = std::make_shared<std::atomic<bool>>(false);
  mutable std::atomic<std::uint64_t> drawn_ = 0;
  mutable std::mutex mutex_;
  using link = std::pair<std::uint64_t, std::uint64_t>;
  mutable std::map<link, std::chrono::steady_clock::time_point> last_;  ///< delivery on each link
};

}  // namespace troupe::actors
