// A training run, fully resolved: what the command line said, with every default filled in.

#pragma once

#include "kernels/backend/backend.hpp"
#include "runtime/data/blend.hpp"
#include "runtime/data/fill_in_middle.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/model/recompute.hpp"
#include "runtime/object/object_store.hpp"
#include "runtime/trainer/pipeline_schedule.hpp"
#include "runtime/trainer/reference_trainer.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct data_settings {
  data_blend path;  ///< whose documents `split` deals out; empty: none
  /// Or a blend for each part, all documents of each data set. The test data are only checked.
  data_blend train_path, valid_path, test_path;
  bool mock = false;
  std::string split = "969,30,1";  ///< of `path` and of mock data
  std::optional<std::filesystem::path> cache;
  std::optional<std::filesystem::path> object_cache;  ///< of the indices of s3:// data sets
  object_store objects;                               ///< where these are; the process's
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool sft = false;  ///< data sets are conversations, and answers alone count in the loss
  fim_settings fim;
  sampling order = sampling::single;  ///< of samples
  std::int32_t end_of_document = 0;   ///< of the tokenizer
};

struct layout_settings {
  int world = 1;  ///< workers
  int tensor = 1;
  int pipeline = 1;  ///< data parallelism is the rest
  std::string order = "tp-cp-ep-dp-pp";
  bool sequence_parallel = false;  ///< rows of the residual stream are sharded

  /// `layout.replicas_per_worker`: logical replicas that each data-parallel rank plays in turn,
  /// each with its own gradients: the same bits as with as many ranks more.
  int replicas_per_worker = 1;

  /// Processes that the workers stand in, each in one of contiguous ranks of the mesh, beside one
  /// that hosts none; 1: all is in one process. No bit depends on it.
  int processes = 1;

  schedule_settings schedule;  ///< who does what when, and how many chunks each rank has

  /// The layers of each chunk of the model; filled in by `resolve` from
  /// a text of all stages, from what the first and the last are told to hold, or from what
  /// embedding and loss count, or evenly.
  std::vector<chunk_range> chunks;
};

/// How gradients and optimizer state are sharded over the data axis. No flag changes a bit; the
/// grain, which is none, is part of what norms and digests are of.
struct reduction_settings {
  bool distributed_optimizer = false;   ///< ZeRO stage 1
  std::int64_t bucket_size = 40000000;  ///< elements
  bool overlap_gradients = false;
  bool overlap_parameters = false;
  std::int64_t grain = default_grain;  ///< elements that are never parted: see buckets.hpp
};

struct checkpoint_settings {
  std::filesystem::path save;       ///< empty: none
  std::filesystem::path load;       ///< empty: none
  std::uint64_t save_interval = 0;  ///< iterations; 0: only at the end
  std::filesystem::path load_hub;   ///< a Hugging Face model folder; empty: none
  int keep_last = 0;                ///< older ones are removed; 0: none is
  /// But for those of iterations that are multiples of this; 0: there are none.
  std::uint64_t keep_every = 0;
  /// Iterations between the states that keepers write to disks of their hosts; 0: none is.
  std::uint64_t local_interval = 0;
  std::filesystem::path local_folder;  ///< where on each host
  bool finetune = false;               ///< parameters only, iteration and data from 0
  bool no_load_optim = false;          ///< moments begin at 0, the iteration goes on
  bool override_scheduler = false;     ///< the rate of the flags
  bool use_checkpoint_scheduler = false;
  /// Before the second try to save the last iteration; twice as long before each further one.
  std::chrono::milliseconds last_pause = std::chrono::seconds(1);
  bool strict_identity = false;  ///< another identity is refused, not told
  bool exit_on_missing = false;  ///< a run that goes on by itself does not begin anew
};

struct watch_settings {
  std::uint64_t log_interval = 100;
  std::filesystem::path log_file;         ///< a JSON object a line; empty: none
  std::filesystem::path csv_file;         ///< the same as a table; empty: none
  std::filesystem::path board_dir;        ///< event files; empty: none
  std::uint64_t board_interval = 1;       ///< steps between two records
  std::filesystem::path trace_file;       ///< empty: none
  std::filesystem::path profile_file;     ///< JSON; empty: none
  std::filesystem::path schedule_record;  ///< CSV; empty: none
  std::uint64_t eval_interval = 0;        ///< 0: never
  std::int64_t eval_batches = 0;          ///< global batches of one evaluation
  bool log_throughput = false;
  double matrix_rate = 0;  ///< FLOP a second; 0: measured at the start
  bool log_params_norm = false;
  bool log_zero_gradients = false;
  bool progress = true;
  /// Of the lines of the console: "megatron", "short", or "auto", which is short on a terminal.
  std::string log_format = "auto";
  std::string log_level = "info";  ///< the least that the console shows: "debug" to "error"
  bool quiet = false;              ///< the console shows warnings and errors alone, and no bar
  /// A worker that takes so many times as long as others do, or as it did, is named; 0: nobody is.
  double straggler_ratio = 1.5;
};

/// What becomes of a run in which an actor or a lane dies. No field changes a bit.
struct recovery_settings {
  bool on = false;  ///< it is replaced and the step runs again; off: the run ends
  /// Restarts within `window` seconds; one more ends the run.
  int max_restarts = 10;
  double window = 3600;
  double suspicion = 10;  ///< seconds without progress until somebody is taken for dead
  /// Share of the passes of a step that are computed again, where they can in another replica, and
  /// compared to the bit (verification.hpp).
  double verify_fraction = 0;
};

/// Delays and faults, injected to show that nothing depends on luck. All off by default.
struct fault_settings {
  std::uint64_t seed = 0;
  int lane_delay_us = 0;     ///< longest sleep before a lane's work
  int message_delay_us = 0;  ///< longest delay of a message
  /// "stage:0.1@3": stage 1 of replica 0 throws in step 3. "nan:0.1@3-5": one of its gradients is
  /// NaN in steps 3 to 5; "nan-once:0.1@3": only when that step runs first. Several have commas
  /// between them. Empty: none.
  std::string fault;
  /// "lane:0.1@3:reduce": that lane dies in its reduction of step 3, once, however often the step
  /// runs again. Several have commas between them. Empty: none. See planted_death.hpp.
  std::string death;
};

/// Each fault of fault_settings::fault, or death of fault_settings::death, which outlives them.
std::vector<std::string_view> faults_in(std::string_view all);

/// How workers of one process exchange and sum.
enum class collectives : std::uint8_t {
  local,      ///< they read each other's memory; sums in rank order
  nccl,       ///< NCCL moves, sums in rank order: the same bits
  nccl_fast,  ///< NCCL sums in its own order: other bits, the same in every run on such machines
};
std::string_view to_string(collectives x);  ///< as the flag takes it
std::optional<collectives> collectives_from(std::string_view name);

/// How tensors go from worker to worker of one process. No bit depends on it.
enum class transports : std::uint8_t {
  tickets,  ///< they change hands
  ucx,      ///< over a wire, as between processes
};
std::string_view to_string(transports x);  ///< as the flag takes it
std::optional<transports> transports_from(std::string_view name);

/// Of the cuda backend.
struct device_settings {
  std::vector<int> numbers;  ///< the workers' in turn; empty: all
  bool tf32 = false;         ///< in products of fp32
  /// Attention's gradients may be summed as they come: a run is equal to itself only up to
  /// rounding.
  bool nondeterministic = false;
  bool measure_products = true;           ///< false: the library's first guess
  std::filesystem::path product_choices;  ///< empty: in the user's cache
  collectives exchange = collectives::local;
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
  std::uint64_t exit_interval = 0;  ///< stop after an iteration it divides; 0: no
  double exit_minutes = 0;          ///< stop after the first iteration that ends so late; 0: no
  bool skip_train = false;          ///< evaluates the state that it starts from, and saves nothing
  int threads_per_worker = 1;
  kernels::backend backend = kernels::backend::cpu;
  device_settings devices;
  transports transport = transports::tickets;
  bool check_messages = false;        ///< each goes through bytes before it is delivered
  std::string tokenizer_description;  ///< JSON: kind, files, fingerprint; kept in checkpoints
};

/// What of a job decides the bits of its states, as JSON: seed, recipe, precision, data, layout,
/// threads, instruction set, build. Kept in the checkpoint; a difference at resume is said.
std::string identity(const training_job& job);

/// What of a job its caller could not make out, and has told why: rules about it are left out.
struct unknown_parts {
  bool shape = false;      ///< the sizes of the model, which are 0
  bool tokenizer = false;  ///< and with it the vocabulary, whose padded size is 0
  bool data = false;       ///< what to train on
  bool batch = false;      ///< its sizes, and so what a schedule has to do
  bool stages = false;     ///< which layers they hold, or how many of them a rank has
  bool length = false;  ///< how many iterations, and how many samples the rate rises and decays in
};

/// Every rule that the job breaks, one sentence each with the flag and the nearest value that would
/// do; empty: it can run, where nothing is unknown.
std::vector<std::string> validate(const training_job& job, unknown_parts unknown = {});

}  // namespace troupe::runtime
