// Injected delays and faults. They show that nothing depends on luck; in a normal run all are off
// and cost one comparison.

#pragma once

#include "runtime/trainer/job.hpp"
#include "runtime/trainer/planted_death.hpp"

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

/// Shared by all actors of a process. Any thread.
class fault_injector {
 public:
  /// Throws input_error when a fault is not of the form WHO@STEP or WHO@FIRST-LAST, and as
  /// planted_death_from.
  explicit fault_injector(const runtime::fault_settings& settings) : fault_injector(settings, {}) {}

  /// Of simulations alone.
  struct simulated {
    /// Asked when a planted death is about to strike; false: it never does.
    std::function<bool(const runtime::planted_death&)> strikes;
    /// Hangs where it is called. True: it goes on as if nothing had been, instead of dying.
    std::function<bool(const runtime::planted_death&)> hang;
  };
  fault_injector(const runtime::fault_settings& settings, simulated how);

  /// Throws when the fault is to be injected into `who` in this step. WHO is "supervisor", "node",
  /// "loader", "checkpointer", "monitor", "replica:R", "stage:R.P.T", or "lane:R.P.T", which
  /// throws while the others of its groups wait in the reduction, or "wire:R.P.T", which throws
  /// in the first bucket that is reduced beside the lane. Tensor rank T may be left out: it is 0.
  void inject(const std::string& who, std::uint64_t step) const;

  /// Whether something is to be injected into `who` in this step that is no failure of its own:
  /// "nan:R.P.T" finds NaN in a gradient; "nan-once:R.P.T" only the first time that this process is
  /// asked of that step.
  bool injects(const std::string& who, std::uint64_t step) const;

  /// `who` comes to this moment of the step: it is slow, or dies by throwing if that was planted,
  /// hangs until `release`, or is told that a bit of its result shall be wrong. Whoever comes here
  /// first also brings about the deaths that were planted for others at this moment, of those who
  /// never come to it themselves; but a keeper, which serves another process. `has_result`: without
  /// one there is no bit to be wrong, and that death waits.
  enum class fate : std::uint8_t { lives, wrong_bits, wrong_moment, wrong_second_moment };
  fate pass(const std::string& who,
            std::uint64_t step,
            runtime::moment_of_step at,
            bool has_result = true) const;

  /// Only what hangs or is slow, of those who come to no moment: `who` does nothing more, if that
  /// was planted, until `release`.
  void hang(const std::string& who, std::uint64_t step, runtime::moment_of_step at) const;

  /// `who` was told to end. Hangs instead until `release`, if it is one who comes to no moment by
  /// itself and that was planted for one that has come. True: it goes on as if nothing had been.
  bool hang_instead(const std::string& who) const;

  /// `who` may be killed by this call from now on: it replaces the one before it of that name. Of
  /// a node and a supervisor the call also tells that they are to hang (hang_instead).
  void enlist(const std::string& who, std::function<void(const std::string& why)> kill) const;

  /// Asked before a planted death strikes; false: it has struck already, in a process that is no
  /// more. Nobody is asked before this was said. Any thread calls it.
  void claim_by(std::function<bool(const runtime::planted_death&)> claims) const;

  /// Those that hang go on, and end.
  void release() const;

  /// The planted deaths that nobody has died yet, as they were written.
  std::vector<std::string> deaths_to_come() const;

  /// Sleeps as long as the seed says. For lanes.
  void delay_lane() const;

  bool delays_messages() const { return settings_.message_delay_us > 0; }

  /// How long the message from one actor to another takes that leaves now, as the seed says: not
  /// less than what is left of the one before it, so that those between two actors stay in order.
  std::chrono::nanoseconds message_delay(std::uint64_t from,
                                         std::uint64_t to,
                                         std::chrono::steady_clock::time_point now) const;

 private:
  struct injected_fault {
    std::string text, who = {};
    std::uint64_t first = 1, last = 0;  ///< the steps in which it is
  };
  /// The first that is to be injected; null: none.
  const injected_fault* find(const std::string& who, std::uint64_t step) const;

  /// Sleeps, if it was planted that `who` is slow there from an earlier step on.
  void delay(const std::string& who, std::uint64_t step, runtime::moment_of_step at) const;

  struct death;
  void stand_still(const death& x) const;
  bool is_claimed(const death& x) const;
  struct death {
    runtime::planted_death what;
    int same_before = 0;  ///< of the same text
    mutable std::atomic<bool> struck = false;
    mutable std::atomic<bool> asked = false;  ///< to hang, and does not yet
  };

  runtime::fault_settings settings_;
  simulated simulated_;
  std::vector<injected_fault> faults_;
  mutable std::set<std::pair<const injected_fault*, std::uint64_t>> struck_once_;  ///< and step
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
