// A seed: the job that it draws, what disturbs it, and what must be true of the run nevertheless.
//
// Of every run:   it ends; nothing is leased, no actor and no fiber is left, no lane hangs in its
//                 end; each committed step is told once,
//                 ascending, with the digest of the undisturbed run. So for the monitor and the
//                 ledger. Nobody restarts more often than somebody was killed or a connection
//                 broke: what broke a promise would be hidden by its repair.
// With an error:  somebody was killed or a connection broke, the run does not recover, and the
//                 reason names one of those.
// Without:        all steps are committed, unless an early end was asked for; every ticket was
//                 redeemed unless such a thing happened, each sample asked for; what was told of
//                 validations and the files of checkpoints are those of the undisturbed run; the
//                 last iteration is saved. So for a run that outlives a death, too.

#pragma once

#include "actors/simulation/play.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::actors::simulation {

struct seed_options {
  std::function<void(std::string_view)> trace = {};  ///< takes every line; null: none is made
};

struct seed_verdict {
  std::vector<std::string> wrong = {};  ///< empty: all is well
  std::uint64_t hash = 0;               ///< of every choice
  std::uint64_t turns = 0, ns = 0;
  bool died = false;   ///< somebody was killed
  bool broke = false;  ///< a connection did, between two who lived
};

/// Runs seeds, one after the other. Undisturbed runs are kept, by shape of their jobs.
class seed_judge {
 public:
  /// `folder` is made, holds the checkpoints of one run at a time, and is removed.
  explicit seed_judge(std::filesystem::path folder);
  ~seed_judge();
  seed_judge(const seed_judge&) = delete;
  seed_judge& operator=(const seed_judge&) = delete;

  seed_verdict judge(std::uint64_t seed, const seed_options& options = {});

  /// One seed in a hundred is run twice: whether both made the same choices.
  static bool is_repeated(std::uint64_t seed);

 private:
  struct shape_state {
    small_prepared job;  ///< in one process, ends at a death
    /// Others of this shape, by whether they survive a death, and in how many processes.
    std::map<std::pair<bool, int>, small_prepared> others;
    seen_run undisturbed;  ///< of `job`; what the others must come to, too
  };
  shape_state& shape(std::uint64_t number);
  const small_prepared& job_of(shape_state& x, std::uint64_t number, bool recovers, int processes);

  std::filesystem::path folder_;
  std::map<std::uint64_t, shape_state> shapes_;
};

/// What is wrong with a run, in sentences.
std::vector<std::string> complaints(const seen_run& seen, const seen_run& undisturbed);

}  // namespace troupe::actors::simulation
