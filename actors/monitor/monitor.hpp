// The monitor: the console, the log file, the progress bar. It watches and never delays: nobody
// waits for it.

#pragma once

#include "actors/node/resources.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/progress.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <cstdio>
#include <memory>
#include <optional>

namespace troupe::actors {

/// Megatron-LM's log line, with tokens/s.
std::string log_line(const runtime::step_report& x,
                     std::uint64_t train_iterations,
                     double mean_loss,
                     double mean_ms,
                     bool throughput);

/// One JSON object, no line end.
std::string log_record(const runtime::step_report& x);
std::string log_record(const runtime::validation_report& x);

class monitor_state {
 public:
  static constexpr const char* name = "monitor";

  explicit monitor_state(messages::monitor_actor::pointer self) : self_(self) {}
  ~monitor_state();

  /// Throws io_error when the log file cannot be opened.
  void start(std::shared_ptr<const resources> shared);
  void receive(const messages::committed& x);
  void receive(const messages::validated& x);

 private:
  void record(const std::string& line);

  messages::monitor_actor::pointer self_;
  std::shared_ptr<const resources> shared_;
  std::FILE* log_ = nullptr;
  std::unique_ptr<runtime::progress_bar> bar_;
  double loss_sum_ = 0, ms_sum_ = 0;  ///< since the last line
  int steps_ = 0;
};

messages::monitor_actor::behavior_type monitor(
    messages::monitor_actor::stateful_pointer<monitor_state> self,
    std::shared_ptr<const resources> shared);

}  // namespace troupe::actors
