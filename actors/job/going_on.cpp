#include "actors/job/going_on.hpp"

#include "actors/faults/inject.hpp"
#include "actors/job/described_job.hpp"
#include "actors/job/start.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/telemetry/run_log.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

std::uint64_t iteration_of(const runtime::watched& x) {
  return std::visit([](const auto& fact) { return std::uint64_t(fact.iteration); }, x);
}

/// The last iteration in a log of a run that began after `start`; empty if there is no log.
template <class IterationOf>
std::optional<std::uint64_t> last_in(const fs::path& log,
                                     std::uint64_t start,
                                     const IterationOf& iteration_of_line) {
  if (log.empty())
    return std::nullopt;
  std::uint64_t out = start;
  std::error_code failure;
  if (!fs::is_regular_file(log, failure))
    return out;
  const auto text = runtime::read_text(log);
  std::string_view rest = text;
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    if (const std::int64_t at = iteration_of_line(rest.substr(0, end)); at >= 0)
      out = std::max(out, std::uint64_t(at));
    rest.remove_prefix(end + 1);
  }
  return out;
}

// Facts are written in the order of their iterations. A log with an entry of one iteration is
// complete before it; entries of the last iteration may be missing.
written_so_far written_by_others(const runtime::watch_settings& watch,
                                 const messages::job_description& told,
                                 const runtime::step_ledger& ledger) {
  const auto facts = ledger.facts();
  written_so_far out{0, told.iteration, told.consumed};
  if (facts.empty())
    return out;
  const auto start = told.iteration;
  auto last = iteration_of(facts.back().second);
  for (const auto& of_log : {last_in(watch.log_file, start, runtime::iteration_of_json),
                             last_in(watch.csv_file, start, runtime::iteration_of_row)})
    last = std::min(last, of_log.value_or(last));
  const auto complete = std::max(last, start + 1) - 1;
  const auto first = iteration_of(facts.front().second);
  if (facts.front().first > 1 && first > complete + 1)
    runtime::log_warning(
        "the logs of this run lack the iterations {} to {}: the process that wrote the logs died "
        "first, and nothing else recorded them",
        complete + 1,
        first - 1);
  out.fact = facts.front().first - 1;
  for (const auto& [number, fact] : facts) {
    if (iteration_of(fact) > complete)
      break;
    out.fact = number;
    out.iteration = iteration_of(fact);
    if (const auto* const step = std::get_if<runtime::step_report>(&fact))
      out.consumed = step->consumed_samples;
  }
  return out;
}

}  // namespace

std::shared_ptr<prepared_job> prepare_to_go_on(const runtime::held_run_folder& folder) {
  auto out = std::make_shared<prepared_job>();
  auto& node = *out->node;
  out->description = read_job_description(runtime::read_description(folder),
                                          "'" + folder.description().string() + "'");
  const auto& job = node.jobs->open(out->description)->job;
  runtime::prepare_devices(job, {});  // its ranks are in other processes
  add_message_path(node, job);
  inject(node, job.faults);
  add_saved_states(node, out->description);
  go_on_writing(node, job.watch, out->description, folder.ledger());
  return out;
}

void go_on_writing(node_context& node,
                   const runtime::watch_settings& logs,
                   const messages::job_description& told,
                   const fs::path& ledger) {
  node.ledger->go_on_in(ledger);
  node.written = written_by_others(logs, told, *node.ledger);
  cut_logs(logs, node.written->iteration);
}

}  // namespace troupe::actors
