// Finds wrong bits, hardware faults behind non-finite steps, and stragglers in the reports of
// replicas. Replaces processes that computed wrong bits.

#pragma once

#include "actors/supervisor/cross_check.hpp"
#include "actors/supervisor/second_run.hpp"
#include "actors/supervisor/stragglers.hpp"
#include "actors/supervisor/supervised_run.hpp"
#include "runtime/trainer/decision.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::actors {

class bit_checker : supervisor_part {
 public:
  explicit bit_checker(supervisor_parts& all)
      : supervisor_part(all), slow_(straggler_rule{.ratio = run_.job->job.watch.straggler_ratio}) {}

  void receive(const messages::check_pass& x);

  // Each gets the merged report of all, and returns false if replicas differ. The step then runs
  // again, and the report is cleared.

  bool passes_agree(const messages::vote& all);
  bool votes_agree(const messages::vote& all);
  bool states_agree(const messages::applied& all);
  /// Votes of the next step need all recomputed passes.
  bool has_open_cases() const { return check_.has_open_cases(); }

  /// The voted step is not finite, and a second run must tell why; it has been started.
  bool is_to_run_again(const messages::vote& all,
                       const runtime::step_verdict& verdict,
                       const std::string& where);
  void look_for_stragglers(const messages::vote& all, int microbatches);
  void commit(std::uint64_t step) { twice_.commit(step); }

  /// Marks the process for exchange. An older mark stays, but becomes `wrong_bits` if this one is.
  void doubt(int process,
             std::uint64_t step,
             const std::string& why,
             process_loss how = process_loss::wrong_bits);
  /// Exchanges processes that had to wait, when the correct result of their step is kept.
  bool exchange_when_kept();

 private:
  bool agree(checked_bits what, const std::vector<ballot>& ballots, const std::string& promise);
  std::string describe(const wrong_bits& x, checked_bits what) const;
  void tell_of(const wrong_bits& x, const std::string& why);
  void send_back(const std::vector<wrong_bits>& found, const std::string& why);
  /// Exchanges as many doubted processes as possible at once; false: none.
  bool exchange_doubted();
  /// "stage:1.0"; with several processes also its process and host.
  std::string name_and_place_of(int replica, int stage) const;
  // Non-finite steps (nonfinite.cpp).
  void tell_of(const second_runs::finding& x);
  std::string place_of(const second_runs::finding& x) const;
  /// Doubts the process of that replica, if a single process has all its stages.
  void doubt_if_alone(int replica, const std::string& why);

  cross_check check_;
  second_runs twice_;
  stragglers slow_;
  /// Processes in places that are no longer trusted, waiting for their exchange: their keeper, or
  /// the process that they keep, is being exchanged.
  struct doubted_process {
    std::uint32_t incarnation = 0;
    std::uint64_t step = 0;  ///< that it computed wrong
    std::string why;
    process_loss how = process_loss::wrong_bits;
  };
  std::map<int, doubted_process> doubted_;
};

}  // namespace troupe::actors
