#include "actors/simulation/cluster.hpp"

#include "actors/job/front.hpp"
#include "actors/simulation/idle_worker.hpp"
#include "actors/simulation/small_job.hpp"
#include "actors/simulation/virtual_agent.hpp"
#include "messages/training/step.hpp"
#include "runtime/core/error.hpp"
#include "runtime/process/process_usage.hpp"
#include "runtime/transport/local/local_transport.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors::simulation {
namespace {

/// A run without a commit for this long has stopped.
constexpr std::uint64_t patience_ns = 600'000'000'000;

double seconds(std::uint64_t ns) {
  return double(ns) / 1e9;
}

/// Plays one run.
class cluster {
 public:
  explicit cluster(const cluster_settings& of)
      : prepared_(prepare_small(cluster_job(of))),
        world_(1, how(of), std::make_shared<turn_trace>()),
        network_(world_, {1, 2}, how(of)),
        counter_(world_, network_),
        process_(network_.add_process(network_.add_host(), told())),
        hosts_(
            network_,
            of.processes,
            of.hosts,
            process_.context()->messages,
            prepared_.job.opened().job.recovery,
            [this] { return told(); },
            hosts_in_rack) {
    out_.of = of;
    world_.take_time(of.handling_ns);
    world_.before_message([this](auto to, const auto& x) { look(to, x); });
  }

  /// Actors still use the other members.
  ~cluster() { world_.end(); }
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  cluster_run run() {
    const auto began = std::chrono::steady_clock::now();
    const auto& layout = prepared_.job.opened().job.layout;
    out_.tensor = layout.tensor;
    out_.pipeline = layout.pipeline;
    out_.replicas = prepared_.job.opened().replicas();
    const std::shared_ptr<const node_context> context = process_.context();
    process_.context()->agent = world_.system().spawn(virtual_agent, &hosts_);
    network_.belongs(process_.context()->agent.id(), process_);
    const auto root = world_.system().spawn(
        front,
        prepared_.job.description,
        context,
        [this](const outcome& x) { end_ = x; },
        std::nullopt);
    network_.belongs(root.id(), process_);
    while (world_.running() > 0 && world_.now_ns() < committed_ns_ + patience_ns && world_.turn()) {
    }
    if (world_.running() > 0 || !end_ || end_->exit_code != 0 || newest_ < last_step())
      throw runtime::broken_promise(
          fmt::format("the simulated run of {} workers stops after step {} of {}: {}",
                      out_.of.workers,
                      newest_,
                      last_step(),
                      end_ ? end_->reason : why_it_stopped()));
    out_.turns = world_.turns();
    out_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(out_);
  }

 private:
  static mix how(const cluster_settings& of) {
    return {.host_latency_ns = of.latency_ns, .network_latency_ns = of.latency_ns, .steady = true};
  }
  std::uint64_t measured_step() const { return std::uint64_t(out_.of.steps) - 1; }
  std::uint64_t last_step() const { return prepared_.job.opened().job.train_iterations; }

  /// All processes share one transport, so tickets are redeemed at once.
  node_context told() {
    auto out = *prepared_.job.node;
    out.forget();
    out.transport = transport_;
    out.env.watches_lanes = false;
    out.env.make_lane = runtime::make_inline_lane;
    out.env.make_groups = [](std::uint64_t generation,
                             runtime::collectives,
                             const group_registry::join_between_processes&) {
      return std::make_shared<group_registry>(
          runtime::cancel_token(),
          generation,
          runtime::collectives::local,
          std::shared_ptr<group_meeting>(),
          [](const group_place& x, std::uint64_t, const runtime::cancel_token&) {
            return idle_communicator(x);
          });
    };
    out.env.make_worker = [ranks = ranks_](const worker_place&,
                                           runtime::worker_settings settings,
                                           runtime::stream& by,
                                           const runtime::worker_groups& groups) {
      runtime::axis_rank tensor;
      if (const auto found = groups.along.find(runtime::axis::tensor); found != groups.along.end())
        tensor = {found->second->rank(), found->second->size()};
      auto of = ranks->of(settings, tensor);
      return std::make_unique<idle_worker>(std::move(of), std::move(settings), by);
    };
    out.env.record = [this](const runtime::watched& x) {
      if (const auto* const step = std::get_if<runtime::step_report>(&x))
        take_down(*step);
      else if (const auto* const event = std::get_if<runtime::run_event>(&x))
        take_down(*event);
    };
    return out;
  }

  std::string why_it_stopped() const {
    return world_.now_ns() < committed_ns_ + patience_ns
               ? std::string("no actor has a message")
               : fmt::format("no step was committed for {:.0f} s", seconds(patience_ns));
  }

  void look(caf::actor_id to, const caf::mailbox_element& x) {
    if (out_.start_seconds == 0 && x.content().match_elements<messages::run_step>()) {
      out_.start_seconds = seconds(world_.now_ns());
      out_.start = counter_.counted();
    }
    counter_.note(to, x);
  }

  // The monitor hears of each commit at the same point of its step, so that counts between two
  // commits are those of a step, although the end of one step overlaps with the next.
  void take_down(const runtime::step_report& x) {
    newest_ = x.iteration;
    committed_ns_ = world_.now_ns();
    const auto step = x.iteration;
    if (step + 1 == measured_step()) {
      counter_.forget();
    } else if (step == measured_step()) {
      out_.step = counter_.counted();
      out_.step_seconds = x.elapsed_ms / 1e3;
      note_memory();
    } else if (step == measured_step() + 1 && out_.of.kill) {
      world_.at(world_.now_ns(), "a part of the cluster dies", [this] { kill(); });
    } else if (step == measured_step() + 2 && out_.recovery) {
      out_.recovery->outage_seconds = seconds(world_.now_ns() - killed_ns_);
      out_.recovery->messages = counter_.counted();
    }
  }

  void take_down(const runtime::run_event& x) {
    if (!out_.recovery || x.kind != "restart")
      return;
    out_.recovery->from = x.from;
    out_.recovery->resumed = x.resumed;
    out_.recovery->restart_seconds = x.seconds;
  }

  void note_memory() {
    const auto now = runtime::usage_of_this_process().resident_bytes;
    out_.bytes_per_worker = (now - std::min(now, bytes_before_)) / std::uint64_t(out_.of.workers);
  }

  // The part in the middle: its neighbours on both sides survive.
  void kill() {
    const auto living = hosts_.living();
    const auto& victim = *living[living.size() / 2];
    out_.recovery.emplace();
    killed_ns_ = world_.now_ns();
    counter_.forget();
    for (auto* const x : living) {
      const bool dies = *out_.of.kill == failing_part::process ? x == &victim
                        : *out_.of.kill == failing_part::host
                            ? &x->host() == &victim.host()
                            : x->host().domain == victim.host().domain;
      if (!dies)
        continue;
      ++out_.recovery->processes;
      network_.kill(*x);
    }
  }

  std::uint64_t bytes_before_ = runtime::usage_of_this_process().resident_bytes;
  cluster_run out_;
  std::optional<outcome> end_;
  std::uint64_t newest_ = 0, committed_ns_ = 0, killed_ns_ = 0;
  std::shared_ptr<runtime::local_transport> transport_
      = std::make_shared<runtime::local_transport>(1);
  std::shared_ptr<idle_ranks> ranks_ = std::make_shared<idle_ranks>();
  small_prepared prepared_;
  world world_;
  virtual_network network_;
  message_counter counter_;
  virtual_process& process_;
  virtual_hosts hosts_;
};

/// The largest of 8, 7, ... that divides it.
int largest_divisor(int of) {
  int out = 8;
  while (of % out != 0)
    --out;
  return out;
}

void add(std::vector<cluster_figure>& to, const std::string& kind, const kind_counts& x) {
  to.push_back(
      {kind + ": most messages of one", double(x.most_handled.messages + x.most_sent.messages)});
  to.push_back({kind + ": most bytes of one", double(x.most_handled.bytes + x.most_sent.bytes)});
}

}  // namespace

runtime::training_job cluster_job(const cluster_settings& of) {
  runtime::training_job job;
  int tensor = 8;
  while (of.workers % tensor != 0)
    tensor /= 2;
  const int pipeline = largest_divisor(of.workers / tensor);
  const int data = of.workers / tensor / pipeline;
  job.training.seed = 1;
  job.training.model = runtime::default_family().smallest(pipeline);
  job.training.rate = {.maximum = 1e-3, .minimum = 1e-4, .warmup = 2, .decay = 100};
  job.training.batch = {.micro = 1, .global = data * cluster_microbatches, .data_parallel = data};
  job.layout = {.world = of.workers, .tensor = tensor, .pipeline = pipeline};
  job.layout.processes = of.processes;
  job.data.mock = true;  // replaced by made_up_samples
  job.train_iterations = std::uint64_t(of.steps) + (of.kill ? 2 : 0);
  job.watch.eval_interval = 0;
  job.watch.log_interval = 0;
  job.watch.progress = false;
  job.watch.quiet = true;
  job.watch.straggler_ratio = 0;
  job.backend = kernels::backend::reference;
  job.recovery.on = true;
  job.recovery.suspicion = 30;
  return job;
}

cluster_run run_cluster(const cluster_settings& of) {
  if (of.workers < 1 || of.processes < 2 || of.processes > of.workers || of.hosts < 1
      || of.hosts > of.processes || of.steps < 4)
    throw runtime::input_error(
        "cannot simulate {} workers in {} processes on {} hosts for {} steps: give at least 2 "
        "processes, at most one for each worker, at most one host for each process, and 4 steps or "
        "more",
        of.workers,
        of.processes,
        of.hosts,
        of.steps);
  if (of.kill == failing_part::rack && of.hosts <= hosts_in_rack)
    throw runtime::input_error(
        "the death of a rack of {} hosts ends all {} hosts of {} workers; give more hosts",
        hosts_in_rack,
        of.hosts,
        of.workers);
  if (of.kill == failing_part::host && of.hosts == 1)
    throw runtime::input_error(
        "the death of a host ends all {} workers: they have one host; give more", of.workers);
  return cluster(of).run();
}

std::optional<double> growth(std::pair<double, double> workers, std::pair<double, double> of) {
  if (of.first <= 0 || of.second <= 0 || workers.first == workers.second)
    return std::nullopt;
  return std::log(of.second / of.first) / std::log(workers.second / workers.first);
}

std::vector<cluster_figure> figures_of(const cluster_run& x) {
  std::vector<cluster_figure> out = {{"start, s", x.start_seconds},
                                     {"messages of the start", double(x.start.all.messages)},
                                     {"bytes of the start", double(x.start.all.bytes)},
                                     {"step, s", x.step_seconds}};
  if (x.recovery) {
    out.push_back({"restart, s", x.recovery->restart_seconds});
    out.push_back({"outage, s", x.recovery->outage_seconds});
    out.push_back({"messages of the recovery", double(x.recovery->messages.all.messages)});
    out.push_back({"bytes of the recovery", double(x.recovery->messages.all.bytes)});
  }
  out.push_back({"messages of a step", double(x.step.all.messages)});
  out.push_back({"bytes of a step", double(x.step.all.bytes)});
  for (const auto* const kind : {"supervisor", "replica", "stage", "node", "keeper", "loader"})
    add(out, kind, x.step.of(kind));
  out.push_back({"memory a worker, bytes", double(x.bytes_per_worker)});
  out.push_back({"time of this machine, s", x.seconds});
  return out;
}

}  // namespace troupe::actors::simulation
