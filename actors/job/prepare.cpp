#include "actors/job/prepare.hpp"

#include "actors/faults/inject.hpp"
#include "actors/host/neighbours.hpp"
#include "actors/job/cold_start.hpp"
#include "actors/job/start.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/checkpoint/initial_parameters.hpp"
#include "runtime/checkpoint/own_parameters.hpp"
#include "runtime/checkpoint/upcycled.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hmac.hpp"
#include "runtime/core/log.hpp"
#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/machine/matrix_rate.hpp"
#include "runtime/transport/local/local_transport.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_transport.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

/// Number of samples in the first `iterations` steps.
std::uint64_t samples_of(const runtime::batch_schedule& batch, std::uint64_t iterations) {
  std::int64_t consumed = 0;
  std::uint64_t i = 0;
  for (; i < iterations && !runtime::is_settled(batch, consumed); ++i)
    consumed += runtime::global_batch_size(batch, consumed);
  return std::uint64_t(consumed) + (iterations - i) * std::uint64_t(batch.global);
}

/// Micro-batches that a replica reads ahead. Only object stores need it, with a small limit; the
/// system caches pages of files.
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
  auto data = runtime::open_samples(job, part, samples, stop);
  runtime::require_tensors(job, data->schema());
  return std::make_shared<runtime::dataset_source>(
      std::move(data),
      runtime::batch_layout{std::uint64_t(job.training.batch.micro),
                            std::uint64_t(job.training.batch.data_parallel)},
      pool,
      job.data.order,
      read_ahead_of(job.data));
}

std::string data_text(const runtime::training_job& job) {
  return runtime::data_text(job, samples_of(job.training.batch, job.train_iterations));
}

/// Opens the training data, and the other parts that the description has.
void open_parts(const runtime::training_job& job,
                const messages::job_description& told,
                node_context& to,
                const runtime::cancel_token& stop) {
  const auto& watch = job.watch;
  const auto each = std::uint64_t(watch.eval_batches) * std::uint64_t(job.training.batch.global);
  to.training = open_part(job,
                          runtime::data_split::train,
                          samples_of(job.training.batch, job.train_iterations),
                          to.pool,
                          stop);
  if (told.tests)
    to.test = open_part(job, runtime::data_split::test, each, to.pool, stop);
  if (told.validates)
    to.validation = open_part(job,
                              runtime::data_split::valid,
                              (job.train_iterations / watch.eval_interval + 1) * each,
                              to.pool,
                              stop);
}

/// Finds which of the requested data splits exist.
void find_parts(const runtime::training_job& job, messages::job_description& out) {
  const auto& watch = job.watch;
  if (watch.eval_batches == 0)
    return;
  out.tests = runtime::has_documents(job, runtime::data_split::test);
  if (watch.eval_interval == 0)
    return;
  out.validates = runtime::has_documents(job, runtime::data_split::valid);
  if (!out.validates)
    runtime::log_warning(
        "`data.split` {} leaves {} for validation, so no validation runs; give validation a larger "
        "share or set `watch.eval_batches` 0",
        job.data.split,
        job.data.sft ? "no conversation with an answer within `model.sequence`" : "no document");
}

/// A checkpoint that stays open while workers load it; its mapped files survive removal. Any
/// thread.
class opened_checkpoint {
 public:
  explicit opened_checkpoint(fs::path folder,
                             std::shared_ptr<const runtime::checkpoint_reader> reader = {})
      : folder_(std::move(folder)), reader_(std::move(reader)) {}

  /// Opens it again when it was closed, for a rank that is rebuilt later.
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
        runtime::require_extents(from, part.name, part.whole);
        from.read(part.name, part.part, part.elements);
      },
      moments);
}

/// Tells, in the first process, which parameters begin with initial values.
void tell_of_new(const runtime::initial_parameters& begun,
                 const std::function<bool(std::string_view)>& has,
                 const fs::path& from) {
  if (const auto told = begun.told(has, from.string()); !told.empty())
    runtime::log_info(" {}", told);
}

/// Sets the source from which workers load the job's initial state. `tells`: in the first process.
void add_start_state(node_context& to,
                     const runtime::training_job& job,
                     const messages::job_description& told,
                     bool tells,
                     std::shared_ptr<const runtime::checkpoint_reader> from = {}) {
  if (!told.start.empty()) {
    if (!from)
      from = std::make_shared<const runtime::checkpoint_reader>(told.start);
    if (told.iteration > 0)
      runtime::take_products(job, from->folder(), from->manifest().products);
    const auto held = std::make_shared<opened_checkpoint>(told.start, std::move(from));
    to.restored = [held] { held->close(); };
    if (job.checkpoints.upcycle) {
      const auto all = std::make_shared<const runtime::upcycled_parameters>(
          job.training.model, job.checkpoints.upcycle_granularity, job.training.seed);
      to.restore = [held, all](runtime::worker& by) {
        const auto dense = held->reader();
        by.restore([&](const runtime::state_shard& part) { all->read(*dense, part); }, false);
      };
      return;
    }
    to.restore = [held, moments = told.with_moments](runtime::worker& by) {
      fill_from(by, *held->reader(), moments);
    };
    return;
  }
  const auto& where = job.checkpoints;
  if (where.load_hub.empty() && where.pretrained.empty())
    return;
  const auto begun
      = std::make_shared<const runtime::initial_parameters>(job.training.model, job.training.seed);
  if (!where.pretrained.empty()) {
    const std::shared_ptr<const runtime::checkpoint_reader> pretrained
        = runtime::open_model(where.pretrained);
    if (tells)
      tell_of_new(
          *begun, [&](auto name) { return pretrained->has(name); }, where.pretrained);
    to.restore = [pretrained, begun](runtime::worker& by) {
      by.restore(
          [&](const runtime::state_shard& x) {
            if (!pretrained->has(x.name))
              return begun->begin(x, pretrained->folder().string());
            runtime::require_extents(*pretrained, x.name, x.whole);
            pretrained->read(x.name, x.part, x.elements);
          },
          false);
    };
    return;
  }
  const auto hub
      = std::make_shared<const runtime::hub_model>(runtime::read_hub_model(where.load_hub));
  if (tells)
    tell_of_new(
        *begun, [&](auto name) { return hub->has(name); }, where.load_hub);
  to.restore = [hub, begun, from = where.load_hub.string()](runtime::worker& by) {
    by.restore(
        [&](const runtime::state_shard& x) {
          if (hub->has(x.name))
            hub->read(x.name, x.part, x.elements);
          else
            begun->begin(x, from);
        },
        false);
  };
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
    out.description.start = fs::absolute(from->folder()).string();
    out.description.with_moments = start.with_moments;
    const auto* verb = job.skip_train || start.iteration >= job.train_iterations ? ""
                       : start.iteration > 0                                     ? "resuming "
                                                                                 : "starting ";
    runtime::log_info(" {}{}", verb, start.text);
    return add_start_state(*out.node, job, out.description, true, from);
  }
  if (!where.load.empty())
    runtime::log_info(" no checkpoint in {} yet", where.load.string());
  runtime::log_info(" {} {}", job.skip_train ? "evaluating" : "starting", start.text);
  add_start_state(*out.node, job, out.description, true);
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
                       && job.backend != kernels::backend::cuda;  // products are computed in f32
  runtime::log_info(
      " peak matmul rate: {:.3f} TFLOP/s, measured with products in {} on {}; set it with "
      "`watch.matrix_rate`",
      out.matrix_rate / 1e12,
      widened ? "f32" : to_string(job.training.precision),
      job.backend == kernels::backend::cuda
          ? runtime::device_identity(job)
          : fmt::format("{} x {} threads", job.layout.world, job.threads_per_worker));
}

void add_recorders(node_context& to, const runtime::training_job& job) {
  if (!job.watch.trace_file.empty())
    to.trace = std::make_shared<runtime::trace_recorder>();
  if (!job.watch.profile_file.empty())
    to.profile = std::make_shared<runtime::operation_profile>();
}

/// Checks all plans before any actor starts.
void check_plans(const prepared_job& out) {
  const auto& opened = out.opened();
  const auto& schedule = *opened.pipeline.schedule;
  for (const int m : runtime::planned_microbatches(opened.job, out.description.consumed))
    schedule.training(m);
  for (const auto& note : schedule.notes())
    runtime::log_info(" {}", note);
}

}  // namespace

void add_saved_states(node_context& to, const messages::job_description& told) {
  to.restore_saved = [save = fs::path(told.save)](runtime::worker& by, std::uint64_t iteration) {
    fill_from(by,
              runtime::checkpoint_reader(save / runtime::iteration_folder(std::int64_t(iteration))),
              true);
  };
}

void add_local_states(node_context& to,
                      const runtime::training_job& job,
                      const messages::job_description& told) {
  const auto& where = job.checkpoints.local_folder;
  if (!where.empty() && job.checkpoints.local_interval > 0)
    to.stored = std::make_shared<runtime::local_states>(
        runtime::local_folder_of(where, told.identity, told.save));
}

std::string describe_data(const runtime::training_job& job) {
  return data_text(job);
}

namespace {

/// The job as JSON; a schedule file is replaced by its text.
std::string as_told(runtime::training_job job) {
  job.layout.schedule = runtime::with_text(std::move(job.layout.schedule));
  // Absolute, so that it is the same for processes with other working directories.
  for (auto* const folder : {&job.checkpoints.local_folder,
                             &job.checkpoints.pretrained,
                             &job.training.expert_choices.record,
                             &job.training.expert_choices.replay})
    if (!folder->empty())
      *folder = fs::absolute(*folder);
  return runtime::to_json(job);
}

/// Adds a meter for the GPUs of ranks [first, end).
void add_gpu_meter(node_context& to, const opened_job& of, int process) {
  std::set<int> devices;
  if (of.job.backend == kernels::backend::cuda)
    for (const int rank : of.placed.ranks_of(process))
      devices.insert(runtime::device_of(of.job, rank, to.devices.get()));
  if (!devices.empty())
    to.gpus = std::make_shared<const runtime::gpu_meter>(
        std::vector<int>(devices.begin(), devices.end()));
}

}  // namespace

messages::job_description describe(const runtime::training_job& job, node_context& node) {
  node.jobs->add(runtime::functions_of(job));
  messages::job_description out{.settings = as_told(job)};
  if (!job.checkpoints.save.empty())
    out.save = fs::absolute(job.checkpoints.save).string();
  node.jobs->open(out);
  return out;
}

std::shared_ptr<node_context> prepare_process(const messages::job_description& told,
                                              const messages::process_name& who,
                                              const data_plane_settings& network,
                                              const runtime::registered_functions& functions) {
  auto out = std::make_shared<node_context>();
  out->jobs->add(functions);
  const auto opened = out->jobs->open(told);
  const auto& job = opened->job;
  const auto& ranks = opened->placed.ranks_of(who.process);
  out->devices = runtime::hold_devices(job, ranks, network.run_id, who.incarnation > 1);
  runtime::prepare_devices(job, ranks, out->devices.get());
  if (const auto here = runtime::identity(job); here != told.identity)
    throw runtime::input_error(
        "this process would compute other bits than the run: their identities differ.{}\nGive "
        "every host the same build, libraries and kind of processor or device",
        differences(told.identity, here, "the run", "this process"));
  add_message_path(*out, job);
  add_data_planes(*out, who, network, true);
  inject(*out, job.faults);
  add_recorders(*out, job);
  open_parts(job, told, *out, {});
  add_start_state(*out, job, told, false);
  add_saved_states(*out, told);
  add_local_states(*out, job, told);
  add_gpu_meter(*out, *opened, who.process);
  return out;
}

std::shared_ptr<runtime::transport> make_transport(runtime::transports by, double suspicion) {
  const auto process = std::uint64_t(::getpid());
  if (by == runtime::transports::tickets)
    return std::make_shared<runtime::local_transport>(process);
  return std::make_shared<runtime::wire_transport>(
      runtime::wire_transport_settings{.process = process, .through_the_wire = true},
      [&](runtime::wire_owner& owner) {
        // A random secret, because only this process uses this wire.
        const auto secret = runtime::random_bytes();
        runtime::wire_settings with;
        with.secret = runtime::text_of(secret);
        with.process = process;
        with.handshake_within = std::chrono::milliseconds(std::int64_t(suspicion * 500));
        return runtime::make_ucx_wire(owner, with);
      });
}

void add_message_path(node_context& to, const runtime::training_job& job) {
  to.messages = std::make_shared<message_path>(job.check_messages);
}

std::shared_ptr<prepared_job> prepare(runtime::training_job job,
                                      const runtime::cancel_token& stop,
                                      const runtime::held_run_folder* folder) {
  auto out = std::make_shared<prepared_job>();
  auto& node = *out->node;
  out->description = describe(job, node);
  runtime::prepare_devices(
      job,
      job.layout.processes > 1 ? std::vector<int>() : runtime::placed_of(job.layout).ranks_of(0));
  add_message_path(node, job);
  if (job.layout.processes == 1) {
    node.transport = make_transport(job.transport, job.recovery.suspicion);
    add_recorders(node, job);
  }
  inject(node, job.faults);
  find_parts(job, out->description);
  open_parts(job, out->description, node, stop);
  runtime::log_info(" data: {}", data_text(job));
  load_state(job, *out, stop);
  add_saved_states(node, out->description);
  out->description.settings = as_told(job);  // the checkpoint may determine its learning rate
  if (job.layout.processes > 1)
    node.restore = {}, node.restored = {};  // no workers in this process
  else
    add_gpu_meter(node, *node.jobs->open(out->description), 0);
  check_plans(*out);
  out->description.identity = runtime::identity(job);
  find_matrix_rate(job, out->description);
  const bool goes_on = folder != nullptr && take_up_dead_run(*out, *folder);
  if (!goes_on && out->description.iteration > 0 && !job.skip_train)
    cut_logs(job.watch, out->description.iteration);
  return out;
}

}  // namespace troupe::actors
