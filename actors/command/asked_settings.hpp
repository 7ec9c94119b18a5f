// Settings of the command line that no member of a job holds as they are written. `resolve` derives
// members of the job from them. Their rows are like those of the job (runtime/core/setting.hpp).
//
// An empty optional: not given, and without a default of its own.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/model/stages.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

using runtime::at_resume;
using runtime::elsewhere;
using runtime::largest_count;
using runtime::real_range;
using runtime::whole_range;

struct asked_data {
  std::vector<std::string> path, train_path, valid_path, test_path;
  std::string order = "single";
  bool unsharded = false;
  std::filesystem::path arguments_file, part_arguments_file;

  static constexpr auto changed_at_resume = at_resume::told;
  static constexpr auto fields() {
    using runtime::row;
    using x = asked_data;
    constexpr auto words_of_a_blend = "PREFIX...";
    constexpr int most_words = 1 << 20;
    return std::tuple(
        row("path", &x::path)
            .flag(
                {.name = "--data-path",
                 .type = words_of_a_blend,
                 .help = "Data set PREFIX.bin and PREFIX.idx, as written by `troupe preprocess` or "
                         "Megatron-LM; s3://BUCKET/KEY names objects. Several are blended: WEIGHT "
                         "PREFIX WEIGHT PREFIX, or only prefixes; then every sample is read once.",
                 .megatron
                 = "a blend without weights that is too short for the run is refused at the start",
                 .most = most_words}),
        row("arguments_file", &x::arguments_file)
            .flag({.name = "--data-args-path",
                   .type = "FILE",
                   .help = "File that contains the words of --data-path."}),
        row("train_path", &x::train_path)
            .flag({.name = "--train-data-path",
                   .type = words_of_a_blend,
                   .help = "Training data sets, with all their documents; replaces --data-path and "
                           "--split.",
                   .most = most_words}),
        row("valid_path", &x::valid_path)
            .flag({.name = "--valid-data-path",
                   .type = words_of_a_blend,
                   .help = "Validation data sets, with --train-data-path.",
                   .most = most_words,
                   .resume = at_resume::free}),
        row("test_path", &x::test_path)
            .flag({.name = "--test-data-path",
                   .type = words_of_a_blend,
                   .help
                   = "Data sets for the test loss at the end of the run, with --train-data-path.",
                   .most = most_words,
                   .resume = at_resume::free}),
        row("part_arguments_file", &x::part_arguments_file)
            .flag({.name = "--per-split-data-args-path",
                   .type = "FILE",
                   .help
                   = "JSON file with the words of --train-data-path, --valid-data-path and "
                     "--test-data-path: {\"train\": [...], \"valid\": [...], \"test\": [...]}."}),
        row("order", &x::order)
            .flag({.name = "--dataloader-type",
                   .type = "TYPE",
                   .help = "Order of samples. single: that of the data set's shuffled index. "
                           "cyclic: epoch after epoch, each with its own shuffle.",
                   .megatron = "single or cyclic",
                   .choices = "single cyclic"}),
        row("unsharded", &x::unsharded)
            .flag({.name = "--no-data-sharding",
                   .help = "With --dataloader-type cyclic: all replicas draw from one order of "
                           "samples; without it, each draws from its own share."}));
  }
};

/// The length of the run and its batch sizes.
struct asked_steps {
  std::vector<std::int64_t> ramp;  ///< empty, or START INCREMENT SAMPLES
  std::string sizes;               ///< "TOKENS:SIZE ..."; may be empty
  std::optional<std::int64_t> iterations, samples;
  std::string nonfinite = "stop";

  static constexpr auto fields() {
    using runtime::row;
    using x = asked_steps;
    return std::tuple(
        row("ramp", &x::ramp)
            .named("batch.ramp")
            .flag({.name = "--rampup-batch-size",
                   .type = "START INCREMENT SAMPLES",
                   .unit = "samples",
                   .help = "Starts with START samples per step and grows by INCREMENT, until it "
                           "reaches the global batch size after SAMPLES samples.",
                   .least = 3,
                   .most = 3,
                   .range = whole_range{0, largest_count},
                   .resume = at_resume::told}),
        row("sizes", &x::sizes)
            .named("batch.steps")
            .flag({.name = "--step-batch-size-schedule",
                   .type = "TOKENS:SIZE ...",
                   .help
                   = "Batch size by consumed tokens: from TOKENS on, a step has SIZE samples, "
                     "e.g. '0:768 250B:1536'; K, M, B and T are thousands to trillions. Needs "
                     "--train-samples; the last SIZE is the global batch size.",
                   .megatron = "all sizes are checked for divisibility at the start",
                   .resume = at_resume::told}),
        row("iterations", &x::iterations)
            .named("train_iterations")
            .flag({.name = "--train-iters",
                   .unit = "steps",
                   .help = "Steps of the whole run (required, unless --train-samples is given).",
                   .range = whole_range{1, largest_count},
                   .resume = at_resume::told}),
        row("samples", &x::samples)
            .named("train_samples")
            .flag({.name = "--train-samples",
                   .unit = "samples",
                   .help = "Samples of the whole run. Learning rates are then counted in samples, "
                           "too. A partial last batch is dropped; with --step-batch-size-schedule "
                           "it is completed; within --rampup-batch-size one more step runs.",
                   .range = whole_range{1, largest_count},
                   .resume = at_resume::told}),
        row("nonfinite", &x::nonfinite)
            .own_flag({.name = "--on-nonfinite",
                       .type = "WHAT",
                       .help
                       = "Reaction to a loss or gradient that is NaN or infinite. stop: ends "
                         "with exit code 2, and saves the state before that step (with --save). "
                         "skip: skips the update; the learning rate waits, the data advances.",
                       .choices = "stop skip"}));
  }
};

struct asked_decay {
  std::optional<double> start, end;

  static constexpr auto fields() {
    using runtime::row;
    using x = asked_decay;
    return std::tuple(
        row("start", &x::start)
            .named("start_weight_decay")
            .flag({.name = "--start-weight-decay",
                   .default_value = "--weight-decay",
                   .help = "With --weight-decay-incr-style linear or cosine: initial weight decay.",
                   .range = real_range{0},
                   .resume = at_resume::scheduler}),
        row("end", &x::end)
            .named("end_weight_decay")
            .flag({.name = "--end-weight-decay",
                   .default_value = "--weight-decay",
                   .help = "With --weight-decay-incr-style linear or cosine: final weight decay.",
                   .range = real_range{0},
                   .resume = at_resume::scheduler}));
  }
};

struct asked_rate {
  std::optional<std::int64_t> decay_iterations, decay_samples;
  std::optional<std::int64_t> warmup_iterations, warmup_samples;
  std::optional<double> warmup_fraction;
  std::optional<std::int64_t> wsd_iterations, wsd_samples;

  static constexpr auto changed_at_resume = at_resume::scheduler;
  static constexpr auto fields() {
    using runtime::row;
    using x = asked_rate;
    return std::tuple(
        row("wsd_iterations", &x::wsd_iterations)
            .named("wsd_decay_iterations")
            .flag(
                {.name = "--lr-wsd-decay-iters",
                 .unit = "steps",
                 .help = "With --lr-decay-style WSD: number of last steps in which the rate falls.",
                 .range = whole_range{1, largest_count}}),
        row("wsd_samples", &x::wsd_samples)
            .named("wsd_decay")
            .flag({.name = "--lr-wsd-decay-samples",
                   .unit = "samples",
                   .help = "As --lr-wsd-decay-iters, in samples.",
                   .range = whole_range{1, largest_count}}),
        row("decay_iterations", &x::decay_iterations)
            .flag({.name = "--lr-decay-iters",
                   .unit = "steps",
                   .default_value = "the whole run",
                   .help = "Steps until the rate has decayed to --min-lr.",
                   .range = whole_range{1, largest_count}}),
        row("decay_samples", &x::decay_samples)
            .named("decay")
            .flag({.name = "--lr-decay-samples",
                   .unit = "samples",
                   .help = "As --lr-decay-iters, in samples.",
                   .range = whole_range{1, largest_count}}),
        row("warmup_iterations", &x::warmup_iterations)
            .flag({.name = "--lr-warmup-iters",
                   .unit = "steps",
                   .default_value = "0",
                   .help = "Steps of linear warm-up.",
                   .range = whole_range{0, largest_count}}),
        row("warmup_samples", &x::warmup_samples)
            .named("warmup")
            .flag({.name = "--lr-warmup-samples",
                   .unit = "samples",
                   .help = "As --lr-warmup-iters, in samples.",
                   .range = whole_range{0, largest_count}}),
        row("warmup_fraction", &x::warmup_fraction)
            .flag({.name = "--lr-warmup-fraction",
                   .help = "Length of the warm-up as a fraction of the decay.",
                   .range = real_range{0, 1}}));
  }
};

/// Uneven pipeline stages, and the axis of Megatron-LM that this build lacks.
struct asked_layout {
  std::optional<std::string> stages;  ///< the contents of all stages
  std::optional<std::int64_t> first_layers, last_layers;
  bool embedding_counts = false, loss_counts = false;
  std::optional<std::int64_t> layers_per_chunk;
  std::string costs;
  elsewhere context;

  runtime::uneven_ends ends() const {
    return {first_layers, last_layers, embedding_counts, loss_counts};
  }
  bool has_ends() const { return first_layers || last_layers || embedding_counts || loss_counts; }

  static constexpr auto fields() {
    using runtime::row;
    using x = asked_layout;
    return std::tuple(
        row("stages", &x::stages)
            .named("chunks")
            .flag({.name = "--pipeline-model-parallel-layout",
                   .type = "TEXT",
                   .help = "Contents of each stage, e.g. 'Et*3|(tt|)*2tL': E embedding, t layer, L "
                           "loss, | next stage, *n repeats.",
                   .megatron = "no m: this build has no multi-token heads",
                   .resume = at_resume::told}),
        row("first_layers", &x::first_layers)
            .named("ends.first")
            .flag({.name = "--decoder-first-pipeline-num-layers",
                   .unit = "layers",
                   .help = "Layers of the first stage; the others share the rest.",
                   .resume = at_resume::told}),
        row("last_layers", &x::last_layers)
            .named("ends.last")
            .flag({.name = "--decoder-last-pipeline-num-layers",
                   .unit = "layers",
                   .help = "Layers of the last stage; the others share the rest.",
                   .resume = at_resume::told}),
        row("embedding_counts", &x::embedding_counts)
            .named("ends.embedding_counts")
            .flag(
                {.name = "--account-for-embedding-in-pipeline-split",
                 .help = "Counts the embedding as a layer when layers are distributed over stages.",
                 .resume = at_resume::told}),
        row("loss_counts", &x::loss_counts)
            .named("ends.loss_counts")
            .flag({.name = "--account-for-loss-in-pipeline-split",
                   .help = "Counts the loss as a layer when layers are distributed over stages.",
                   .resume = at_resume::told}),
        row("layers_per_chunk", &x::layers_per_chunk)
            .named("schedule.layers_per_chunk")
            .flag({.name = "--num-layers-per-virtual-pipeline-stage",
                   .unit = "layers",
                   .help = "As --num-virtual-stages-per-pipeline-rank, given by the layers per "
                           "virtual stage.",
                   .range = whole_range{1},
                   .resume = at_resume::told}),
        row("costs", &x::costs)
            .named("schedule.costs")
            .own_flag({.name = "--pipeline-times",
                       .type = "F,I,W[,C]",
                       .default_value = "1,1,1,0",
                       .help = "With auto and behaviours: cost of forward, input gradients, weight "
                               "gradients and a transfer, in any common unit."}),
        row("context", &x::context)
            .flag({.name = "--context-parallel-size",
                   .type = "N",
                   .default_value = "1",
                   .help = "Only 1: this build does not split samples over workers.",
                   .megatron = "only 1"}));
  }
};

struct asked_recompute {
  std::optional<std::string> granularity, method;
  std::optional<std::int64_t> layers;
  bool activations = false, experts = false;
  elsewhere modules;

  static constexpr auto fields() {
    using runtime::row;
    using x = asked_recompute;
    return std::tuple(
        row("granularity", &x::granularity)
            .flag({.name = "--recompute-granularity",
                   .type = "WHAT",
                   .default_value = "no recomputation",
                   .help = "What the backward pass recomputes. full: whole layers. selective: "
                           "parts of each layer, see --recompute-modules.",
                   .choices = "full selective"}),
        row("activations", &x::activations)
            .named("granularity=selective")
            .flag({.name = "--recompute-activations",
                   .help = "The same as --recompute-granularity selective."}),
        row("method", &x::method)
            .flag(
                {.name = "--recompute-method",
                 .type = "HOW",
                 .help
                 = "Layers to recompute, with --recompute-granularity full. uniform: all layers of "
                   "a stage, in groups. block: only the first layers of a stage, one at a time.",
                 .choices = "uniform block"}),
        row("layers", &x::layers)
            .flag({.name = "--recompute-num-layers",
                   .unit = "layers",
                   .help = "With uniform: layers per group. With block: layers to recompute.",
                   .range = whole_range{1}}),
        row("modules", &x::modules)
            .flag({.name = "--recompute-modules",
                   .type = "MODULE",
                   .default_value = "core_attn",
                   .help = "With --recompute-granularity selective: core_attn, mlp; in models with "
                           "experts also moe, and its parts moe_act and shared_experts.",
                   .megatron = "core_attn, mlp, and with experts moe, moe_act and shared_experts; "
                               "norms keep almost nothing",
                   .most = 16}),
        row("experts", &x::experts)
            .flag({.name = "--moe-layer-recompute",
                   .help = "The same as --recompute-granularity selective, and moe besides the "
                           "modules that are given.",
                   .megatron = "refused in models without experts"}));
  }
};

struct asked_settings {
  std::int64_t vocabulary_divisor = 128;
  asked_data data;
  asked_steps steps;
  asked_decay weight_decay;
  asked_rate rate;
  std::string backend = "auto";
  std::string device_numbers;
  asked_layout layout;
  asked_recompute recompute;
  std::optional<double> matrix_rate;  ///< TFLOP/s
  elsewhere delays;
  bool dry_run = false;
  std::filesystem::path run_folder;  ///< empty: below the save folder, if there is one

  static constexpr auto fields() {
    using runtime::row;
    using x = asked_settings;
    return std::tuple(
        row("vocabulary_divisor", &x::vocabulary_divisor)
            .named("model.vocabulary_divisor")
            .flag({.name = "--make-vocab-size-divisible-by",
                   .help = "Pads the embedding with zero rows to a multiple of N, for faster "
                           "matrix products. The rows do not change results.",
                   .range = whole_range{1},
                   .resume = at_resume::told}),
        row("data", &x::data),
        row("steps", &x::steps).named(""),
        row("weight_decay", &x::weight_decay).named("optimizer"),
        row("rate", &x::rate),
        row("backend", &x::backend)
            .own_flag({.name = "--backend",
                       .type = "NAME",
                       .help
                       = "Backend that computes. auto: cuda if a device can be used, else cpu. "
                         "cuda; cpu. reference: slow plain loops with sums in double precision; "
                         "tests compare the others with it.",
                       .choices = "auto cuda cpu reference",
                       .resume = at_resume::told}),
        row("device_numbers", &x::device_numbers)
            .named("devices.numbers")
            .own_flag({.name = "--devices",
                       .type = "N,N,...",
                       .default_value = "all",
                       .help
                       = "GPUs of this machine, counted from 0, assigned to the workers in turn; "
                         "several workers may share one."}),
        row("layout", &x::layout),
        row("recompute", &x::recompute),
        row("matrix_rate", &x::matrix_rate)
            .named("watch.matrix_rate")
            .own_flag({.name = "--matrix-rate",
                       .type = "TFLOPS",
                       .unit = "TFLOP/s",
                       .default_value = "measured at the start, in 0.2 s",
                       .help = "Peak rate of the matrix products of all workers together.",
                       .range = real_range{1e-6, 1e9}}),
        row("delays", &x::delays)
            .named("faults.delays")
            .own_flag({.name = "--plant-delays",
                       .type = "SEED,LANE,MESSAGE",
                       .help = "Random delays of up to LANE microseconds before work and MESSAGE "
                               "before delivery. They must not change any bit.",
                       .injects_faults = true}),
        row("dry_run", &x::dry_run)
            .own_flag({.name = "--dry-run",
                       .help = "Resolves and checks flags, files and layout, prints model, layout, "
                               "plan and memory, and exits. Does not build the sample order."}),
        row("run_folder", &x::run_folder)
            .named("run.folder")
            .own_flag({.name = "--run",
                       .type = "DIR",
                       .default_value = ".run in the --save folder, if given",
                       .help
                       = "Folder of the run for `troupe status`, `troupe wait` and `troupe "
                         "stop`: its processes, progress, log and end. Accessible only to this "
                         "user; reused once its run has ended.",
                       .once = true}));
  }
};

}  // namespace troupe::command
