// The monitor: console, logs and progress bar. Steps never wait for it, and it waits for no other
// actor. Recorders write the files, each on its own thread with a bounded queue; the log's thread
// writes the console.

#pragma once

#include "actors/host/monitor_resources.hpp"
#include "actors/monitor/log_line.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/telemetry/recorder.hpp"

#include <caf/actor_clock.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// The watched facts and their files. The book outlives the monitor: a later monitor continues the
/// same files without missing or repeated lines. One monitor uses it at a time.
class monitor_book {
 public:
  /// `so_far`: what another process has written already.
  /// `shown`: receives the facts too, for viewers; may be null.
  monitor_book(const messages::job_description& told,
               std::shared_ptr<const opened_job> job,
               const std::optional<written_so_far>& so_far = {},
               std::shared_ptr<runtime::record_ring> shown = {});

  /// Held by the monitor that uses the book, because a hung monitor that was left behind may
  /// return.
  class turn {
   public:
    explicit turn(monitor_book& of);
    ~turn();
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

   private:
    monitor_book& of_;
  };
  turn opened() { return turn(*this); }

  /// Whether this fact is new. Facts are numbered, and each is recorded once.
  bool take(std::uint64_t fact);
  /// A file that cannot be opened or written is logged once and retried.
  void add(const messages::committed& x);
  void add(const messages::validated& x);
  void add(const messages::happened& x);
  /// Waits for a short time until everything is written; logs what is missing. A second call does
  /// nothing.
  void conclude();

 private:
  struct watched_file {
    std::string name;  ///< "`watch.log_file` 'run.jsonl'"
    std::unique_ptr<runtime::recorder> recorder;
  };
  runtime::log_settings log_settings() const;
  void advance_bar(const runtime::step_report& x);
  void log_last();
  void open_recorders();
  runtime::step_report with_pipeline(const messages::committed& x) const;
  void record(const runtime::watched& x);
  void write_record() const;

  std::mutex mutex_;
  runtime::wait_condition changed_;
  bool is_open_ = false;
  messages::job_description told_;
  std::shared_ptr<const opened_job> job_;
  std::vector<runtime::loss_spec> losses_;  ///< of the model
  written_so_far begin_;                    ///< what the logs had before
  bool append_ = false;                     ///< they had entries
  std::uint64_t newest_ = 0;                ///< number of the newest fact
  std::vector<watched_file> files_;
  std::shared_ptr<runtime::record_ring> shown_;
  std::unique_ptr<runtime::progress_bar> bar_;
  bool short_lines_ = false;
  since_last_line since_;
  std::optional<runtime::step_report> last_;  ///< committed step without its line so far
  pipeline_since_start pipeline_;
  messages::committed executed_;                    ///< the newest timed step
  std::optional<runtime::validation_report> best_;  ///< of this start, by accuracy
  bool concluded_ = false;
  bool told_of_no_loss_ = false;
};

class monitor_state {
 public:
  static constexpr const char* name = "monitor";

  explicit monitor_state(messages::monitor_actor::pointer self) : self_(self) {}

  void start(const messages::spawn_monitor& told,
             std::shared_ptr<const opened_job> job,
             std::shared_ptr<const monitor_resources> context);
  template <class Fact>
  void receive(const Fact& x) {
    const auto mine = book_->opened();
    if (is_obeyed(x.generation) && (x.fact == 0 || book_->take(x.fact)))
      add(x);
  }
  void receive(const messages::committed& x);
  void receive(const messages::use_processes& x);
  void receive(const messages::sample_due& x);
  void conclude();
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  /// Messages of a supervisor of an older epoch are ignored.
  bool is_obeyed(runtime::generation_id x) {
    epoch_ = std::max(epoch_, epoch_of(x));
    return epoch_of(x) == epoch_;
  }
  template <class Fact>
  void add(const Fact& x) {
    book_->add(x);
    context_->env.record(fact_of(x));
  }
  static runtime::watched fact_of(const messages::committed& x) { return x.report; }
  static runtime::watched fact_of(const messages::validated& x) { return x.report; }
  static runtime::watched fact_of(const messages::happened& x) { return x.event; }

  void look_later();
  void sample(std::size_t process);
  bool is_timeline_due(const messages::committed& x);

  messages::monitor_actor::pointer self_;
  std::shared_ptr<const monitor_resources> context_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<monitor_book> book_;
  std::uint32_t epoch_ = 0;
  std::vector<messages::node_actor> nodes_;  ///< of the other processes
  std::vector<bool> asked_;                  ///< by process: its node has not answered yet
  int looks_ = 0;                            ///< since the last sample
  caf::actor_clock::time_point timeline_at_ = {};
  std::shared_ptr<runtime::lane_board::place> place_;
  std::shared_ptr<void> presence_;  ///< a successor waits until nothing is written here
};

messages::monitor_actor::behavior_type monitor(
    messages::monitor_actor::stateful_pointer<monitor_state> self,
    const messages::spawn_monitor& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const monitor_resources> context);

}  // namespace troupe::actors
