// Carries out viewers' commands between two steps (docs/formats/commands.md). The ledger records
// each command with the number of the next step. A successor continues under these commands
// (CONTROL-1), and a repeated step runs under the commands of its first run (CONTROL-2).

#pragma once

#include "actors/supervisor/supervised_run.hpp"
#include "runtime/trainer/decision.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace troupe::actors {

class commander : supervisor_part {
 public:
  explicit commander(supervisor_parts& all);
  ~commander();

  /// Continues under the commands of the ledger, and begins to receive new ones.
  void take_up();
  void receive(const messages::commands_wait& x);
  void take_commands();
  void pause();
  /// True if the run is paused and no validation, save or recovery is running.
  bool is_at_rest() const;

  const runtime::recipe& recipe() const { return recipe_; }
  bool paused() const { return control_.paused; }
  bool evaluates() const { return control_.evaluates; }
  /// The evaluation of a command is done.
  void evaluated() { control_.evaluates = false; }
  std::uint64_t eval_interval() const { return control_.eval_interval; }
  bool stops_after(std::uint64_t step) const {
    return control_.stops_after && step >= *control_.stops_after;
  }
  bool is_timed(std::uint64_t step) const { return step <= control_.timed_until; }
  void show_norms(const runtime::square_norms& all, double grad_norm);

 private:
  struct command_reader;
  void take_up_commands();
  void wait_for_commands();
  void require_validation() const;  ///< throws input_error
  command_answer carry_out(const command_desk::order& x);
  std::string status_text() const;
  /// Throws input_error if the worker is unknown, or no process of this run can be replaced.
  int process_named(const std::string& worker) const;

  runtime::recipe recipe_;  ///< the job's, with the rate changes of commands
  struct {
    bool paused = false;
    bool evaluates = false;                    ///< after the newest step
    std::uint64_t eval_interval = 0;           ///< 0: never
    std::optional<std::uint64_t> stops_after;  ///< step
    std::uint64_t timed_until = 0;             ///< last step that reports its timeline
    std::string norms_of;                      ///< prefix of parameter names
    std::set<std::string> parameters;          ///< names in votes; empty before the first step
    std::uint64_t norms_until = 0;             ///< last step that reports gradient norms
    bool looks_at_clock = false;               ///< a message to itself is on its way
  } control_;
};

}  // namespace troupe::actors
