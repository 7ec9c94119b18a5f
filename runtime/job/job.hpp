// A training job, fully resolved: the settings of the command line with every default filled in.
//
// `validate` lists the rules that a job breaks; `identity` describes what decides its bits.

#pragma once

#include "kernels/backend/backend.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/data/blend.hpp"
#include "runtime/data/fill_in_middle.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/job/pipeline_schedule.hpp"
#include "runtime/job/recipe.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/model/recompute.hpp"
#include "runtime/object/object_store.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct data_settings {
  data_blend path;  ///< the documents that `split` divides; empty: none
  /// Alternative to `path`: one blend per part, with all documents of each data set. The test data
  /// are only checked.
  data_blend train_path, valid_path, test_path;
  bool mock = false;
  std::string split = "969,30,1";  ///< for `path` and for mock data
  std::optional<std::filesystem::path> cache;
  std::optional<std::filesystem::path> object_cache;  ///< for the indices of s3:// data sets
  object_store objects;  ///< where s3:// data sets are; belongs to this process
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool sft = false;  ///< data sets are conversations; only answers count in the loss
  fim_settings fim;
  sampling order = sampling::single;  ///< order of samples
  std::int32_t end_of_document = 0;   ///< token id of the tokenizer; -1: it names none

  static constexpr auto fields() {
    using x = data_settings;
    return std::tuple(row("path", &x::path),
                      row("train_path", &x::train_path),
                      row("valid_path", &x::valid_path),
                      row("test_path", &x::test_path),
                      row("mock", &x::mock),
                      row("split", &x::split),
                      row("cache", &x::cache),
                      row("object_cache", &x::object_cache),
                      row("objects", &x::objects).stays(),
                      row("eod_mask_loss", &x::eod_mask_loss),
                      row("reset_position_ids", &x::reset_position_ids),
                      row("reset_attention_mask", &x::reset_attention_mask),
                      row("sft", &x::sft),
                      row("fim", &x::fim),
                      row("order", &x::order),
                      row("end_of_document", &x::end_of_document));
  }
};

struct layout_settings {
  int world = 1;  ///< number of workers
  int tensor = 1;
  int pipeline = 1;  ///< the data-parallel size is world / (tensor * pipeline)
  std::string order = "tp-cp-ep-dp-pp";
  bool sequence_parallel = false;  ///< shards the rows of the residual stream over the tensor axis

  /// `layout.replicas_per_worker`: logical replicas that each data-parallel rank computes in turn,
  /// each with its own gradients. Gives the same bits as that many times more ranks.
  int replicas_per_worker = 1;

  /// Processes that host workers, each with contiguous ranks of the mesh; one more process hosts
  /// none. 1: a single process hosts everything. Does not change bits.
  int processes = 1;

  schedule_settings schedule;  ///< order of the actions, and chunks per rank

  /// Units of each chunk of the model. `resolve` fills it in from one of these: a text that lists
  /// all stages, the layers of the first and the last stage, the cost of embedding and loss, or an
  /// even split.
  std::vector<chunk_range> chunks;

  static constexpr auto fields() {
    using x = layout_settings;
    return std::tuple(row("world", &x::world),
                      row("tensor", &x::tensor).decides(),
                      row("pipeline", &x::pipeline).decides(),
                      row("order", &x::order).decides(),
                      row("sequence_parallel", &x::sequence_parallel).decides(),
                      row("replicas_per_worker", &x::replicas_per_worker),
                      row("processes", &x::processes),
                      row("schedule", &x::schedule),
                      row("chunks", &x::chunks));
  }
};

/// Sharding of gradients and optimizer state over the data axis. Only `grain` changes bits:
/// norms and digests are sums over grains.
struct reduction_settings {
  bool distributed_optimizer = false;   ///< ZeRO stage 1
  std::int64_t bucket_size = 40000000;  ///< elements
  bool overlap_gradients = false;
  bool overlap_parameters = false;
  std::int64_t grain = default_grain;  ///< elements that stay on one rank: see buckets.hpp

  static constexpr auto fields() {
    using x = reduction_settings;
    return std::tuple(row("distributed_optimizer", &x::distributed_optimizer),
                      row("bucket_size", &x::bucket_size),
                      row("overlap_gradients", &x::overlap_gradients),
                      row("overlap_parameters", &x::overlap_parameters),
                      row("grain", &x::grain));
  }
};

struct checkpoint_settings {
  std::filesystem::path save;       ///< empty: none
  std::filesystem::path load;       ///< empty: none
  std::uint64_t save_interval = 0;  ///< iterations; 0: only at the end
  std::filesystem::path load_hub;   ///< a Hugging Face model folder; empty: none
  int keep_last = 0;                ///< older checkpoints are removed; 0: keep all
  /// Checkpoints of iterations that are multiples of this are never removed; 0: no exception.
  std::uint64_t keep_every = 0;
  /// Iterations between the snapshots that keepers write to local disks; 0: no snapshots.
  std::uint64_t local_interval = 0;
  std::filesystem::path local_folder;  ///< folder on each host
  bool finetune = false;               ///< load parameters only; iteration and data start from 0
  bool no_load_optim = false;          ///< moments start at 0; the iteration continues
  bool override_scheduler = false;     ///< use the learning rate of the flags
  bool use_checkpoint_scheduler = false;
  /// Pause before the first retry of the last save. It doubles with each further retry.
  std::chrono::milliseconds last_pause = std::chrono::seconds(1);
  bool strict_identity = false;  ///< refuse a checkpoint of another identity instead of a warning
  /// A restarted run fails without a checkpoint instead of starting anew.
  bool exit_on_missing = false;

  static constexpr auto fields() {
    using x = checkpoint_settings;
    return std::tuple(row("save", &x::save),
                      row("load", &x::load),
                      row("save_interval", &x::save_interval),
                      row("load_hub", &x::load_hub),
                      row("keep_last", &x::keep_last),
                      row("keep_every", &x::keep_every),
                      row("local_interval", &x::local_interval),
                      row("local_folder", &x::local_folder),
                      row("finetune", &x::finetune),
                      row("no_load_optim", &x::no_load_optim),
                      row("override_scheduler", &x::override_scheduler),
                      row("use_checkpoint_scheduler", &x::use_checkpoint_scheduler),
                      row("last_pause", &x::last_pause),
                      row("strict_identity", &x::strict_identity),
                      row("exit_on_missing", &x::exit_on_missing));
  }
};

struct watch_settings {
  std::uint64_t log_interval = 100;
  std::filesystem::path log_file;         ///< one JSON object per line; empty: none
  std::filesystem::path csv_file;         ///< the same records as a table; empty: none
  std::filesystem::path board_dir;        ///< TensorBoard event files; empty: none
  std::uint64_t board_interval = 1;       ///< steps between two records
  std::filesystem::path trace_file;       ///< empty: none
  std::filesystem::path profile_file;     ///< JSON; empty: none
  std::filesystem::path schedule_record;  ///< CSV; empty: none
  std::uint64_t eval_interval = 0;        ///< 0: never
  std::int64_t eval_batches = 0;          ///< global batches of one evaluation
  bool log_throughput = false;
  double matrix_rate = 0;  ///< FLOP per second; 0: measured at the start
  bool log_params_norm = false;
  bool log_zero_gradients = false;
  bool progress = true;
  /// Format of console lines: "megatron", "short", or "auto" (short on a terminal).
  std::string log_format = "auto";
  std::string log_level = "info";  ///< minimum severity shown on the console: "debug" to "error"
  bool quiet = false;  ///< the console shows only warnings and errors, and no progress bar
  /// Reports a worker that takes this many times as long as the others, or as it took before; 0:
  /// off.
  double straggler_ratio = 1.5;
  /// HOST:PORT where viewers of other hosts reach the run; empty: only the socket of its folder.
  std::string hub;
  /// PEM file with the certificate chain and the private key of that port; empty: no TLS.
  std::filesystem::path hub_certificate;

  static constexpr auto fields() {
    using x = watch_settings;
    return std::tuple(row("log_interval", &x::log_interval),
                      row("log_file", &x::log_file),
                      row("csv_file", &x::csv_file),
                      row("board_dir", &x::board_dir),
                      row("board_interval", &x::board_interval),
                      row("trace_file", &x::trace_file),
                      row("profile_file", &x::profile_file),
                      row("schedule_record", &x::schedule_record),
                      row("eval_interval", &x::eval_interval),
                      row("eval_batches", &x::eval_batches),
                      row("log_throughput", &x::log_throughput),
                      row("matrix_rate", &x::matrix_rate),
                      row("log_params_norm", &x::log_params_norm),
                      row("log_zero_gradients", &x::log_zero_gradients),
                      row("progress", &x::progress),
                      row("log_format", &x::log_format),
                      row("log_level", &x::log_level),
                      row("quiet", &x::quiet),
                      row("straggler_ratio", &x::straggler_ratio),
                      row("hub", &x::hub),
                      row("hub_certificate", &x::hub_certificate));
  }
};

/// Recovery from the death of an actor or a lane. No field changes bits.
struct recovery_settings {
  bool on = false;  ///< restart what died and repeat the step; off: the run ends
  /// Maximum number of restarts within `window` seconds; one more ends the run.
  int max_restarts = 10;
  double window = 3600;
  double suspicion = 10;  ///< timeout of the failure detector, seconds
  /// Share of a step's passes that are computed again and compared bit by bit, in another replica
  /// where possible (verification.hpp).
  double verify_fraction = 0;

  static constexpr auto fields() {
    using x = recovery_settings;
    return std::tuple(row("on", &x::on),
                      row("max_restarts", &x::max_restarts),
                      row("window", &x::window),
                      row("suspicion", &x::suspicion),
                      row("verify_fraction", &x::verify_fraction));
  }
};

/// Fault injection: delays and faults that show that results do not depend on timing. Default: off.
struct fault_settings {
  std::uint64_t seed = 0;
  int lane_delay_us = 0;     ///< maximum sleep before each work item of a lane, microseconds
  int message_delay_us = 0;  ///< maximum delay of a message, microseconds
  /// Faults, separated by commas; empty: none. "stage:0.1@3": stage 1 of replica 0 throws in step
  /// 3. "nan:0.1@3-5": one of its gradients is NaN in steps 3 to 5. "nan-once:0.1@3": the same,
  /// only the first time that step 3 runs.
  std::string fault;
  /// Deaths, separated by commas; empty: none. "lane:0.1@3:reduce": that lane dies in its reduction
  /// of step 3, once, even if the step runs again. See planted_death.hpp.
  std::string death;

  static constexpr auto fields() {
    using x = fault_settings;
    return std::tuple(row("seed", &x::seed),
                      row("lane_delay_us", &x::lane_delay_us),
                      row("message_delay_us", &x::message_delay_us),
                      row("fault", &x::fault),
                      row("death", &x::death));
  }
};

/// Splits fault_settings::fault or fault_settings::death at the commas. Views into `all`.
std::vector<std::string_view> faults_in(std::string_view all);

/// Collectives between the workers of one process.
enum class collectives : std::uint8_t {
  local,  ///< workers read each other's memory; sums in rank order
  nccl,   ///< NCCL moves the data; sums in rank order: the same bits
  /// NCCL also sums, in its own order: other bits, equal in every run on equal machines
  nccl_fast,
};
std::string_view to_string(collectives x);  ///< the value of the flag

/// Transport of tensors between the workers of one process. Does not change bits.
enum class transports : std::uint8_t {
  tickets,  ///< the receiver takes over the tensor without a copy
  ucx,      ///< over UCX, as between processes
};
std::string_view to_string(transports x);  ///< the value of the flag

/// Settings of the cuda backend.
struct device_settings {
  std::vector<int> numbers;  ///< device of each worker, in turn; empty: all devices
  bool tf32 = false;         ///< use TF32 in fp32 matrix products
  /// Attention may sum its gradients in any order; two equal runs then agree only up to rounding.
  bool nondeterministic = false;
  bool measure_products = true;  ///< false: take the library's first heuristic
  /// File of measured algorithms; empty: in the user's cache.
  std::filesystem::path product_choices;
  collectives exchange = collectives::local;

  static constexpr auto fields() {
    using x = device_settings;
    return std::tuple(row("numbers", &x::numbers),
                      row("tf32", &x::tf32),
                      row("nondeterministic", &x::nondeterministic),
                      row("measure_products", &x::measure_products),
                      row("product_choices", &x::product_choices),
                      row("exchange", &x::exchange));
  }
};

struct training_job {
  recipe training;
  data_settings data;
  layout_settings layout;
  reduction_settings reduction;
  recompute_settings recompute;
  checkpoint_settings checkpoints;
  watch_settings watch;
  recovery_settings recovery;
  fault_settings faults;
  std::uint64_t train_iterations = 0;
  std::uint64_t exit_interval = 0;  ///< stop after an iteration that is a multiple of this; 0: off
  double exit_minutes = 0;  ///< stop after the first iteration that ends later than this; 0: off
  bool skip_train = false;  ///< only evaluates the initial state, and saves nothing
  int threads_per_worker = 1;
  kernels::backend backend = kernels::backend::cpu;
  device_settings devices;
  transports transport = transports::tickets;
  bool check_messages = false;        ///< serializes and deserializes each message before delivery
  std::string tokenizer_description;  ///< JSON: kind, files, fingerprint; stored in checkpoints

  static constexpr auto fields() {
    using x = training_job;
    return std::tuple(row("training", &x::training),
                      row("data", &x::data),
                      row("layout", &x::layout),
                      row("reduction", &x::reduction),
                      row("recompute", &x::recompute),
                      row("checkpoints", &x::checkpoints),
                      row("watch", &x::watch),
                      row("recovery", &x::recovery),
                      row("faults", &x::faults),
                      row("train_iterations", &x::train_iterations),
                      row("exit_interval", &x::exit_interval),
                      row("exit_minutes", &x::exit_minutes),
                      row("skip_train", &x::skip_train),
                      row("threads_per_worker", &x::threads_per_worker),
                      row("backend", &x::backend),
                      row("devices", &x::devices),
                      row("transport", &x::transport),
                      row("check_messages", &x::check_messages),
                      row("tokenizer_description", &x::tokenizer_description));
  }
};

/// Everything in a job that decides the bits of its states, as JSON: seed, recipe, precision, data,
/// layout, threads, instruction set, build. Stored in the checkpoint; a resuming run reports
/// differences.
std::string identity(const training_job& job);
/// The identity for checkpoints of a run whose learning rate was changed by commands. Local
/// snapshots use the identity without the changes, so that a cold start finds them.
std::string with_rate_changes(const std::string& identity, const std::vector<rate_change>& all);
/// Reads the changes from a checkpoint's identity, for a run that resumes from it. Throws
/// input_error; its text begins with `where`.
std::vector<rate_change> rate_changes_in(const std::string& identity, const std::string& where);

/// Parts of a job that the caller failed to resolve and already reported. `validate` skips the
/// rules about them.
struct unknown_parts {
  bool shape = false;      ///< the sizes of the model; they are 0
  bool tokenizer = false;  ///< also the vocabulary; its padded size is 0
  bool data = false;       ///< the training data
  bool batch = false;      ///< batch sizes, and with them the work of a schedule
  bool stages = false;     ///< layers per stage, or chunks per rank
  bool length = false;     ///< iterations, and the samples of the learning rate's rise and decay
};

/// One sentence for each broken rule, with the flag and the nearest valid value. Empty: the job can
/// run, except for its unknown parts.
std::vector<std::string> validate(const training_job& job, unknown_parts unknown = {});

}  // namespace troupe::runtime
