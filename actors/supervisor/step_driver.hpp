// Drives the steps. Begins a step, decides when all have voted, commits when all have applied it.
// Then chooses a validation, a save, a pause or the next step. Ends the run (ending.cpp).

#pragma once

#include "actors/host/merged_reports.hpp"
#include "actors/supervisor/supervised_run.hpp"
#include "runtime/trainer/decision.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

class step_driver : supervisor_part {
 public:
  explicit step_driver(supervisor_parts& all);

  void receive(const messages::vote& x);
  void receive(const messages::applied& x);
  void receive(const messages::drain& x);

  /// Allows steps, because all of the generation are there. `proceed` begins the first one.
  void begin() { begun_ = true; }
  bool begun() const { return begun_; }
  /// Discards the running step.
  void forget();
  /// Continues after a step, a validation, a save, or an event that one of them waits for.
  void proceed();
  /// Continues what waits until the newest step is kept.
  void proceed_when_kept();
  void look_at_clock();

  /// The running step. Requires is_running().
  std::uint64_t running() const { return value(now_->step); }
  bool is_running() const { return now_.has_value(); }
  bool is_over() const;
  bool draining() const { return draining_; }
  /// The supervisor's current wait, for the failure detector.
  runtime::lane_board::place::waiting waits_for() const;

  // Ends of the run (ending.cpp).

  /// Ends the run, as planned or after a fatal error.
  void end(int exit_code, const std::string& why);
  /// Like `end`, after the decided step is committed and the running save is finished.
  void give_up(const std::string& why);
  bool gives_up() const { return gives_up_; }
  const std::string& diagnosis() const { return diagnosis_; }
  bool is_concluding() const { return concluding_; }
  bool is_shut_down() const { return shut_down_; }
  /// A new monitor stands.
  void conclude_again();
  void shut_down();

 private:
  bool validation_is_due() const;
  bool test_is_due() const;
  bool is_at_end() const;  ///< of the training
  void begin_step();
  /// Another step is expected after this one.
  bool is_followed(std::uint64_t step) const;
  bool is_timed(std::uint64_t step) const;
  bool counts_experts(std::uint64_t step) const;
  void begin_validation();
  void begin_test();
  void begin_evaluation(std::uint64_t consumed, bool test);
  void begin_evaluation_round();
  void finish();
  void say_when(const std::string& why) const;

  // One step (transaction.cpp).

  void decide();
  runtime::step_result sum_votes();
  void end_evaluation_round();
  void commit();
  messages::committed commit(runtime::committed_step done);
  messages::committed report_step(const runtime::step_ledger::pen& by);

  std::vector<runtime::loss_spec> losses_;  ///< of the model

  bool begun_ = false;  ///< all of the generation are there
  std::optional<messages::run_step> now_;
  std::chrono::steady_clock::time_point began_at_;  ///< of the running step
  runtime::step_report report_;
  bool decided_ = false;  ///< all have voted for the running step
  /// Waiting until the newest step is kept.
  bool waits_to_decide_ = false, waits_to_finish_ = false;
  merged_reports<messages::vote> votes_;
  std::vector<messages::executed_row> executed_;  ///< of the running step
  merged_reports<messages::applied> applied_;
  std::optional<std::uint64_t> validated_told_;  ///< where the run started, if it trains
  std::optional<std::uint64_t> validated_;       ///< iteration of the last validation
  bool tested_;
  struct {
    bool test = false;                             ///< the test set; else the validation set
    std::vector<runtime::loss_value> losses = {};  ///< a sum for each of losses_
    std::uint64_t consumed = 0;                    ///< samples of the set before the next round
    std::int64_t microbatches = 0;                 ///< of each replica, still to come
  } evaluation_;
  std::optional<double> best_accuracy_;  ///< of validations, if the model measures one
  bool draining_;
  bool time_is_up_ = false;  ///< `exit_minutes` have passed
  std::string diagnosis_;    ///< the error that ends the run early; empty: none
  bool gives_up_ = false;    ///< within a step; only the running save is finished
  bool concluding_ = false, shut_down_ = false;
  bool has_waited_for_monitor_ = false;  ///< one hung at the end and was replaced
};

}  // namespace troupe::actors
