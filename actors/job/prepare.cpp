#include "actors/job/prepare.hpp"

#include "actors/job/start.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hmac.hpp"
#include "runtime/core/log.hpp"
#include "runtime/machine/matrix_rate.hpp"
#include "runtime/trainer/device_setup.hpp"
#include "runtime/trainer/job_data.hpp"
#include "runtime/trainer/memory_forecast.hpp"
#include "runtime/transport/local/local_transport.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_transport.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

/// Samples of the first `iterations` steps.
std::uint64_t samples_of(const runtime::batch_schedule& batch, std::uint64_t iterations) {
  std::int64_t consumed = 0;
  std::uint64_t i = 0;
  for (; i < iterations && !runtime::is_settled(batch, consumed); ++i)
    consumed += runtime::global_batch_size(batch, consumed);
  return std::uint64_t(consumed) + (iterations - i) * std::uint64_t(batch.global);
}

/// Micro-batches of a replica that are read ahead. What the store takes of them is bounded, and a
/// file's pages are the system's affair.
std::uint64_t read_ahead_of(const runtime::data_settings& data) {
  constexpr std::uint64_t of_objects = 4;
  return std::ranges::any_of(
             runtime::prefixes_of(data),
             [](const auto& prefix) { return runtime::is_object_url(prefix.string()); })
             ? of_objects
             : 0;
}

std::shared_ptr<const runtime::batch_source> open_part(const runtime::training_job& job,
                                                       runtime::data_split part,
                                                       std::uint64_t samples,
                                                       const runtime::memory_pool& pool,
                                                       const runtime::cancel_token& stop) {
  return std::make_shared<runtime::dataset_source>(
      runtime::open_samples(job, part, samples, stop),
      runtime::batch_layout{std::uint64_t(job.training.batch.micro),
                            std::uint64_t(job.training.batch.data_parallel)},
      pool,
      job.data.order,
      read_ahead_of(job.data));
}

std::string data_text(const runtime::training_job& job) {
  return runtime::data_text(job, samples_of(job.training.batch, job.train_iterations));
}

void open_data(const runtime::training_job& job,
               prepared_job& out,
               const runtime::cancel_token& stop) {
  const auto global = std::uint64_t(job.training.batch.global);
  out.node->training = open_part(job,
                                 runtime::data_split::train,
                                 samples_of(job.training.batch, job.train_iterations),
                                 out.node->pool,
                                 stop);
  runtime::log_info(" data: {}", data_text(job));
  const auto& watch = job.watch;
  if (watch.eval_batches == 0)
    return;
  const auto each = std::uint64_t(watch.eval_batches) * global;
  if (runtime::has_documents(job, runtime::data_split::test)) {
    out.description.tests = true;
    out.node->test = open_part(job, runtime::data_split::test, each, out.node->pool, stop);
  }
  if (watch.eval_interval == 0)
    return;
  if (!has_documents(job, runtime::data_split::valid)) {
    runtime::log_warning(
        "`data.split` {} leaves no document for validation, so none will be done; give validation "
        "a "
        "larger share or set `watch.eval_batches` 0",
        job.data.split);
    return;
  }
  out.description.validates = true;
  out.node->validation = open_part(job,
                                   runtime::data_split::valid,
                                   (job.train_iterations / watch.eval_interval + 1) * each,
                                   out.node->pool,
                                   stop);
}

/// What the manifest says of the model says nothing of its tensors.
void require_extents(const runtime::checkpoint_reader& from,
                     const std::string& name,
                     const runtime::shape& wanted) {
  if (const auto& found = from.extents(name); found != wanted)
    throw runtime::input_error(
        "the checkpoint '{}' has '{}' as {}, but its model needs {}; use another checkpoint",
        from.folder().string(),
        name,
        to_string(found),
        to_string(wanted));
}

/// A checkpoint that is open while workers are filled from it: one that is mapped keeps its space
/// on the disk even when it is removed. Any thread.
class opened_checkpoint {
 public:
  explicit opened_checkpoint(fs::path folder,
                             std::shared_ptr<const runtime::checkpoint_reader> reader = {})
      : folder_(std::move(folder)), reader_(std::move(reader)) {}

  /// Opened again where it was closed: a rank that is built anew reads it, too.
  std::shared_ptr<const runtime::checkpoint_reader> reader() {
    const std::lock_guard lock(mutex_);
    if (!reader_)
      reader_ = std::make_shared<const runtime::checkpoint_reader>(folder_);
    return reader_;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    reader_.reset();
  }

 private:
  const fs::path folder_;
  std::mutex mutex_;
  std::shared_ptr<const runtime::checkpoint_reader> reader_;
};

void fill_from(runtime::worker& to, const runtime::checkpoint_reader& from, bool moments) {
  to.restore(
      [&](const runtime::state_shard& part) {
        require_extents(from, part.name, part.whole);
        from.read(part.name, part.part, part.elements);
      },
      moments);
}

void load_state(runtime::training_job& job, prepared_job& out, const runtime::cancel_token& stop) {
  const auto& where = job.checkpoints;
  const auto start = plan_start(job, stop);
  for (const auto& warning : start.warnings)
    runtime::log_warning("{}", warning);
  out.description.iteration = start.iteration;
  out.description.consumed = start.consumed;
  out.description.skipped = start.skipped;
  out.description.scale = start.scale;
  if (const auto from = start.from) {
    if (start.iteration > 0)
      runtime::take_products(job, from->folder(), from->manifest().products);
    const auto* verb = job.skip_train || start.iteration >= job.train_iterations ? ""
                       : start.iteration > 0                                     ? "resuming "
                                                                                 : "starting ";
    runtime::log_info(" {}{}", verb, start.text);
    const auto held = std::make_shared<opened_checkpoint>(from->folder(), from);
    out.node->restored = [held] { held->close(); };
    out.node->restore = [held, moments = start.with_moments](runtime::worker& by) {
      fill_from(by, *held->reader(), moments);
    };
    return;
  }
  if (!where.load.empty())
    runtime::log_info(" no checkpoint in {} yet", where.load.string());
  runtime::log_info(" {} {}", job.skip_train ? "evaluating" : "starting", start.text);
  if (where.load_hub.empty())
    return;
  const auto hub
      = std::make_shared<const runtime::hub_model>(runtime::read_hub_model(where.load_hub));
  out.node->restore = [hub](runtime::worker& by) {
    by.restore(
        [&](const runtime::state_shard& to) {
          std::vector<float> all(std::size_t(to.whole.size()));
          hub->read(to.name, all);
          fill(to, all);
        },
        false);
  };
}

void find_matrix_rate(const runtime::training_job& job, messages::job_description& out) {
  if (!job.watch.log_throughput)
    return;
  out.matrix_rate = job.watch.matrix_rate;
  if (out.matrix_rate > 0)
    return;
  const bool in_bf16 = job.training.precision == runtime::dtype::bf16;
  out.matrix_rate = job.backend == kernels::backend::cuda
                        ? runtime::matrix_rate_of_devices(job)
                        : runtime::measured_matrix_rate(
                            job.backend, job.layout.world, job.threads_per_worker, in_bf16);
  const bool widened = job.training.precision == runtime::dtype::f16
                       && job.backend != kernels::backend::cuda;  // products are of f32
  runtime::log_info(
      " peak matmul rate: {:.3f} TFLOP/s, measured with products in {} on {}; `watch.matrix_rate` "
      "gives it "
      "instead",
      out.matrix_rate / 1e12,
      widened ? "f32" : to_string(job.training.precision),
      job.backend == kernels::backend::cuda
          ? runtime::device_identity(job)
          : fmt::format("{} x {} threads", job.layout.world, job.threads_per_worker));
}

/// Before any actor starts: a step that cannot be carried out is told now.
void check_plans(const prepared_job& out) {
  const auto& opened = out.opened();
  const auto& schedule = *opened.pipeline.schedule;
  for (const int m : runtime::planned_microbatches(opened.job, out.description.consumed))
    schedule.training(m);
  for (const auto& note : schedule.notes())
    runtime::log_info(" {}", note);
}

}  // namespace

void add_saved_states(node_context& to, const runtime::training_job& job) {
  to.restore_saved = [save = job.checkpoints.save](runtime::worker& by, std::uint64_t iteration) {
    fill_from(by,
              runtime::checkpoint_reader(save / runtime::iteration_folder(std::int64_t(iteration))),
              true);
  };
}

std::string describe_data(const runtime::training_job& job) {
  return data_text(job);
}

messages::job_description describe(const runtime::training_job& job, node_context& node) {
  node.jobs->add(runtime::functions_of(job));
  auto told = job;
  told.layout.schedule = runtime::with_text(std::move(told.layout.schedule));
  messages::job_description out{.settings = runtime::to_json(told)};
  node.jobs->open(out);
  return out;
}

std::shared_ptr<runtime::transport> make_transport(runtime::transports by, double suspicion) {
  const auto process = std::uint64_t(::getpid());
  if (by == runtime::transports::tickets)
    return std::make_shared<runtime::local_transport>(process);
  return std::make_shared<runtime::wire_transport>(
      runtime::wire_transport_settings{.process = process, .through_the_wire = true},
      [&](runtime::wire_owner& owner) {
        // Of this process alone: it redeems of itself, and nobody else can call.
        const auto secret = runtime::random_bytes();
        runtime::wire_settings with;
        with.secret = runtime::text_of(secret);
        with.process = process;
        with.handshake_within = std::chrono::milliseconds(std::int64_t(suspicion * 500));
        return runtime::make_ucx_wire(owner, with);
      });
}

void add_message_path(node_context& to, const runtime::training_job& job) {
  to.faults = std::make_shared<fault_injector>(job.faults);
  to.messages = std::make_shared<message_path>(to.faults, job.check_messages);
}

std::shared_ptr<prepared_job> prepare(runtime::training_job job,
                                      const runtime::cancel_token& stop) {
  auto out = std::make_shared<prepared_job>();
  auto& node = *out->node;
  out->description = describe(job, node);
  runtime::prepare_devices(job);
  add_message_path(node, job);
  node.transport = make_transport(job.transport, job.recovery.suspicion);
  if (!job.watch.trace_file.empty())
    node.trace = std::make_shared<runtime::trace_recorder>();
  if (!job.watch.profile_file.empty())
    node.profile = std::make_shared<runtime::operation_profile>();
  open_data(job, *out, stop);
  load_state(job, *out, stop);
  add_saved_states(node, job);
  out->description.settings = runtime::to_json(job);  // a checkpoint may decide its learning rate
  check_plans(*out);
  out->description.identity = runtime::identity(job);
  find_matrix_rate(job, out->description);
  if (out->description.iteration > 0 && !job.skip_train)
    cut_logs(job.watch, out->description.iteration);
  return out;
}

}  // namespace troupe::actors
