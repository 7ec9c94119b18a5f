// The monitor: the console, the logs, the progress bar. It watches and never delays: nobody waits
// for it, and it waits for nobody. Files are written by recorders, each on a thread of its own with
// a bounded queue; lines of the console by the log's.

#pragma once

#include "actors/monitor/log_line.hpp"
#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/telemetry/recorder.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

class monitor_state {
 public:
  static constexpr const char* name = "monitor";

  explicit monitor_state(messages::monitor_actor::pointer self) : self_(self) {}

  void start(const messages::spawn_monitor& told,
             std::shared_ptr<const opened_job> job,
             std::shared_ptr<const node_context> context);
  /// A file that cannot be opened or written is told, once, and tried again.
  void receive(const messages::committed& x);
  void receive(const messages::validated& x);
  /// Waits, not for long, until everything is written; what is missing is told.
  void conclude();

 private:
  struct watched_file {
    std::string name;  ///< "`watch.log_file` 'run.jsonl'"
    std::unique_ptr<runtime::recorder> recorder;
  };
  runtime::log_settings log_settings() const;
  bool has_line(std::uint64_t iteration) const;
  void advance_bar(const runtime::step_report& x);
  void log_last();
  void open_recorders();
  runtime::step_report with_pipeline(const messages::committed& x) const;
  void record(const runtime::watched& x);
  void write_record() const;

  messages::monitor_actor::pointer self_;
  messages::job_description told_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const node_context> context_;
  std::vector<watched_file> files_;
  std::unique_ptr<runtime::progress_bar> bar_;
  bool short_lines_ = false;
  since_last_line since_;
  std::optional<runtime::step_report> last_;  ///< committed step, while its line is not logged
  pipeline_since_start pipeline_;
  messages::committed executed_;  ///< the newest step that was timed
};

messages::monitor_actor::behavior_type monitor(
    messages::monitor_actor::stateful_pointer<monitor_state> self,
    const messages::spawn_monitor& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const node_context> context);

}  // namespace troupe::actors
