#include "actors/job/run_hub.hpp"

#include "actors/job/hub_port.hpp"
#include "actors/monitor/shown_records.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/counts.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_tokens.hpp"
#include "runtime/watch/follower.hpp"
#include "runtime/watch/hub.hpp"
#include "runtime/watch/metrics_source.hpp"

#include <chrono>
#include <exception>
#include <string_view>
#include <utility>

namespace troupe::actors {
namespace {

using nlohmann::json;

/// Maximum time for viewers to receive the last records of a run.
constexpr auto patience_with_viewers = std::chrono::milliseconds(500);
/// A run counts as watched for this time after a viewer's last request.
constexpr auto looks_every = std::chrono::seconds(30);

json layout_of(const opened_job& job) {
  const auto& layout = job.job.layout;
  json out = {{"tensor", layout.tensor},
              {"pipeline", job.pipeline_ranks()},
              {"data", job.replicas() * job.replicas_each()},
              {"replicas", job.replicas()},
              {"processes", layout.processes}};
  const auto& model = job.job.training.model;
  if (!model.family().shared_by_expert_ranks(model).empty())
    out.update({{"expert", layout.expert}, {"expert_tensor", layout.expert_tensor_ranks()}});
  return out;
}

json stages_of(const opened_job& job) {
  auto out = json::array();
  for (int r = 0; r < job.replicas(); ++r)
    for (const int rank : job.seats.replica(r)) {
      const auto at = job.seats.at(rank);
      out.push_back(json{{"name", job.stage_name(rank)},
                         {"replica", r},
                         {"pipeline", at[runtime::axis::pipeline]},
                         {"tensor", at[runtime::axis::tensor]},
                         {"process", job.placed.process_of(rank)}});
    }
  return out;
}

/// Differs between the processes of a run, and between runs in one folder.
std::uint32_t epoch_of(const runtime::held_run_folder& folder, std::uint32_t incarnation) {
  constexpr int hexadecimal = 16;
  const auto id = std::stoull(folder.record().id, nullptr, hexadecimal);
  return std::uint32_t(id) + incarnation;
}

std::string text_of_run(const runtime::held_run_folder& folder,
                        const prepared_job& prepared,
                        std::uint32_t incarnation) {
  const auto record = folder.record();
  const auto& job = prepared.opened();
  const auto& training = job.job.training;
  return runtime::json_text_replacing(
      json{{"version", runtime::hub_version},
           {"id", record.id},
           {"name", folder.name()},
           {"folder", std::filesystem::absolute(folder.path()).string()},
           {"program", record.program},
           {"command", record.command},
           {"started_at", runtime::unix_seconds(record.started)},
           {"epoch", epoch_of(folder, incarnation)},
           {"host", runtime::host_name()},
           {"steps", job.job.train_iterations},
           {"first_step", prepared.description.iteration},
           {"sequence", training.model.sequence()},
           {"global_batch_size", training.batch.global},
           {"parameters", runtime::parameter_count(runtime::spec_of(training))},
           {"precision", std::string(to_string(training.precision))},
           {"layout", layout_of(job)},
           {"schedule", job.pipeline.schedule->name()},
           {"stages", stages_of(job)},
           {"commands", runtime::command_names()}});
}

/// Puts a command on the desk. The supervisor's thread answers the request.
void order(command_desk& to,
           const std::string& text,
           const std::shared_ptr<runtime::http::exchange>& of) {
  to.put({.what = runtime::read_run_command(text),
          .by = of->asked().peer,
          .answer = [of](const command_answer& x) {
            if (!x.done)
              return of->answer(runtime::http::error_response(409, x.message));
            of->answer({.body = runtime::json_text_replacing(json{{"message", x.message}}) + "\n"});
          }});
}

/// Adds the records of an earlier process, from the ledger: facts that it wrote to the logs,
/// commands, and the newest checkpoint. The monitor adds later facts.
void add_facts_before(runtime::record_ring& to, const prepared_job& job) {
  const auto before = job.node->written.value_or(written_so_far{}).fact;
  for (const auto& [number, fact] : job.node->ledger->facts())
    if (number <= before)
      show(to,
           fact,
           {.throughput = true,
            .matrix_rate = job.description.matrix_rate,
            .expert_layers = job.opened().job.watch.expert_layers},
           true);
  for (const auto& one : job.node->ledger->commands())
    show(to, one, true);
  if (const auto saved = job.node->ledger->newest_saved())
    to.add_past("save", [iteration = *saved] {
      return runtime::json_text(json{{"iteration", iteration}, {"state", "written"}});
    });
}

void log_address(const runtime::watch_settings& watch,
                 std::uint16_t port,
                 const runtime::held_run_folder& folder) {
  const auto host = watch.hub.substr(0, watch.hub.rfind(':'));
  runtime::log_info(" viewers reach this run at {}{}:{}, with the token in {}",
                    watch.hub_certificate.empty() ? "" : "https://",
                    runtime::is_wildcard(host) || host == "[::]" ? runtime::host_name() : host,
                    port,
                    std::filesystem::absolute(folder.read_token()).string());
}

/// Opens the hub without its port if the port cannot be opened. The socket in the folder still
/// serves viewers on this host.
std::shared_ptr<runtime::hub> open_hub(const runtime::hub_sources& of,
                                       runtime::hub_settings how,
                                       const runtime::held_run_folder& folder,
                                       const runtime::watch_settings& watch) {
  const runtime::http::endpoint socket{.folder = folder.sockets(),
                                       .name = runtime::run_folder::hub_socket};
  how.at = {socket};
  try {
    if (const auto port = hub_port_of(watch)) {
      auto with_port = how;
      with_port.at = {port->at, socket};
      with_port.tls = port->tls;
      with_port.names = port->names;
      auto out = std::make_shared<runtime::hub>(of, std::move(with_port));
      log_address(watch, out->ports().front(), folder);
      return out;
    }
  } catch (const std::exception& failure) {  // also of the system
    runtime::log_warning("only viewers of this host can watch the run: {}", failure.what());
  }
  return std::make_shared<runtime::hub>(of, std::move(how));
}

}  // namespace

run_hub::run_hub(const runtime::held_run_folder& folder,
                 const prepared_job& job,
                 std::uint32_t incarnation)
    : commands_(std::make_shared<command_desk>()) {
  try {
    records_ = std::make_shared<runtime::record_ring>(epoch_of(folder, incarnation));
    add_facts_before(*records_, job);
    const auto tokens = runtime::make_run_tokens(folder);
    const auto metrics = std::make_shared<runtime::metrics_source>(
        records_, text_of_run(folder, job, incarnation));
    hub_ = open_hub({.records = records_,
                     .id = folder.record().id,
                     .run = text_of_run(folder, job, incarnation),
                     .metrics = [metrics](std::size_t viewers) { return metrics->text(viewers); },
                     .command = [desk = commands_](const std::string& text,
                                                   const auto& of) { order(*desk, text, of); }},
                    {.read_token = tokens.read, .control_token = tokens.control},
                    folder,
                    job.opened().job.watch);
  } catch (const std::exception& failure) {  // system errors too, such as too many open files
    runtime::log_warning("cannot start the hub, so this run cannot be watched: {}", failure.what());
    return;
  }
  runtime::watch_warnings([records = records_](runtime::severity level, std::string_view text) {
    records->add(
        "warning",
        [level, text = std::string(text)] {
          return runtime::json_text_replacing(
              json{{"severity", level == runtime::severity::error ? "error" : "warning"},
                   {"text", text}});
        },
        runtime::record_ring::usual_bytes + text.size());
  });
  job.node->records = records_;
  job.node->commands = commands_;
  job.node->is_watched = [hub = std::weak_ptr(hub_)] {
    const auto open = hub.lock();
    return open && open->is_watched(looks_every);
  };
}

run_hub::~run_hub() {
  runtime::watch_warnings({});
}

void run_hub::end(int exit_code, const std::string& reason) {
  if (!hub_)
    return;
  commands_->close();
  records_->add_newest("end", "run", [exit_code, reason] {
    return runtime::json_text_replacing(json{{"exit_code", exit_code}, {"reason", reason}});
  });
  hub_->finish(patience_with_viewers);
  hub_.reset();
}

}  // namespace troupe::actors
