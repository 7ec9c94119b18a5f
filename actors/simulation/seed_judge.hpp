// Judges a seed: draws a job and its faults, plays the run, and checks these properties.
//
// Every run:
// * It ends. No ticket is leased, no actor and no fiber is left, no lane hangs at its end.
// * Each committed step is reported once, ascending, with the digest of the undisturbed run. The
//   same holds for the monitor and the ledger.
// * There are at most as many restarts as deaths and broken connections: a needless restart would
//   hide the broken promise that it repairs.
//
// A run that ends with an error: a member died or a connection broke, recovery is off or gave up,
// and the reason names one of these faults.
//
// A run without an error, also one that survived a death:
// * All steps are committed, unless an early end was requested.
// * Every ticket was redeemed, unless such a fault occurred. Every sample was requested.
// * Validations and checkpoint files equal those of the undisturbed run. The last iteration is
//   saved.

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
  std::function<void(std::string_view)> trace = {};  ///< receives every line; null: no trace
};

struct seed_verdict {
  std::vector<std::string> wrong = {};  ///< empty if all checks passed
  std::uint64_t hash = 0;               ///< over all choices
  std::uint64_t turns = 0, ns = 0;
  bool died = false;   ///< an actor, a lane or a process was killed
  bool broke = false;  ///< a connection between two living processes broke
};

/// Judges seeds, one after the other. Caches the undisturbed run of each shape of job.
class seed_judge {
 public:
  /// Creates `folder`, keeps the checkpoints of one run in it, and removes it at the end. `of`: the
  /// family of the models; it outlives this object.
  explicit seed_judge(std::filesystem::path folder,
                      const runtime::model_family& of = runtime::default_family());
  ~seed_judge();
  seed_judge(const seed_judge&) = delete;
  seed_judge& operator=(const seed_judge&) = delete;

  seed_verdict judge(std::uint64_t seed, const seed_options& options = {});

  /// One seed in a hundred runs twice, to check that both runs make the same choices.
  static bool is_repeated(std::uint64_t seed);

 private:
  struct shape_state {
    small_prepared job;  ///< in one process, ends at a death
    /// Variants of this shape, by whether they recover, and by number of processes.
    std::map<std::pair<bool, int>, small_prepared> others;
    seen_run undisturbed;  ///< of `job`; the variants must produce the same results
  };
  shape_state& shape(std::uint64_t number);
  const small_prepared& job_of(shape_state& x, std::uint64_t number, bool recovers, int processes);

  std::filesystem::path folder_;
  const runtime::model_family& family_;
  std::map<std::uint64_t, shape_state> shapes_;
};

/// Violated properties of a run, in sentences.
std::vector<std::string> complaints(const seen_run& seen, const seen_run& undisturbed);

}  // namespace troupe::actors::simulation
