#include "actors/command/flags.hpp"

#include "actors/command/checkpoint_flags.hpp"
#include "actors/command/flag_groups.hpp"
#include "actors/command/flag_table.hpp"
#include "runtime/device/backend_kind.hpp"

#include <utility>

namespace troupe::command {
namespace {

/// Scripts of Megatron-LM's pass '99,1,0' with quotes that the shell has not taken away.
std::string unquoted(const std::string& word) {
  const bool quoted = word.size() >= 2 && word.front() == word.back()
                      && (word.front() == '\'' || word.front() == '"');
  return quoted ? word.substr(1, word.size() - 2) : word;
}

void declare_data(command_line& line, training_flags& to) {
  auto& d = to.data;
  line.group("Data");
  line.values(
      {.name = "--data-path",
       .field = "data.path",
       .type = "PREFIX",
       .help
       = "The data set PREFIX.bin and PREFIX.idx, as `troupe preprocess` or Megatron-LM write "
         "it.",
       .least = 1,
       .most = 1 << 20,
       .megatron = "one prefix; its .bin and .idx as they are",
       .resume = at_resume::told},
      all(d.path));
  line.toggle({.name = "--mock-data",
               .field = "data.mock",
               .help = "Synthetic tokens: no files are needed.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.mock = true; });
  line.value({.name = "--split",
              .field = "data.split",
              .type = "A,B,C",
              .help = "Shares of training, validation and test documents. Default 969,30,1.",
              .megatron = "",
              .resume = at_resume::told},
             [&d](const std::string&, const std::string& word) { d.split = unquoted(word); });
  line.value(
      {.name = "--data-cache-path",
       .field = "data.cache",
       .type = "DIR",
       .help = "Keeps the order of samples there, so that it is computed once.",
       .megatron = "without it the order of samples is computed at every start, and not kept"},
      text(d.cache));
  line.toggle({.name = "--eod-mask-loss",
               .field = "data.eod_mask_loss",
               .help = "The token after the end of a document does not count in the loss.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.eod_mask_loss = true; });
  line.toggle({.name = "--reset-position-ids",
               .field = "data.reset_position_ids",
               .help = "Positions start again after the end of a document.",
               .megatron = "",
               .resume = at_resume::told},
              [&d] { d.reset_position_ids = true; });
  declare(line, to.tokenizer);
}

void declare_steps(command_line& line, training_flags& to) {
  auto& s = to.steps;
  line.group("Batch and steps");
  line.value({.name = "--micro-batch-size",
              .field = "batch.micro",
              .type = "N",
              .help = "Samples of a micro-batch, which passes the stages as one; memory grows with "
                      "it (required).",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.micro, 1));
  line.value({.name = "--global-batch-size",
              .field = "batch.global",
              .type = "N",
              .help = "Samples of one step, over all replicas. Default: one micro-batch a replica.",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.global, 1));
  line.values(
      {.name = "--rampup-batch-size",
       .field = "batch.ramp",
       .type = "START INCREMENT SAMPLES",
       .help = "Begins with START samples a step and grows by INCREMENT until, after SAMPLES "
               "samples, it is the global batch size.",
       .least = 3,
       .most = 3,
       .megatron = "",
       .resume = at_resume::told},
      [&s](const std::string& flag, const std::vector<std::string>& words) {
        s.ramp.clear();
        for (const auto& word : words)
          s.ramp.push_back(parse_whole(flag, word, 0, largest_count));
      });
  line.value({.name = "--train-iters",
              .field = "train_iterations",
              .type = "N",
              .help = "Steps of the whole run (required, or --train-samples).",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.iterations, 0, largest_count));
  line.value({.name = "--train-samples",
              .field = "train_samples",
              .type = "N",
              .help = "The same, counted in samples. Rates are then counted in samples, too.",
              .megatron = "a partial last batch is left out",
              .resume = at_resume::told},
             whole(s.samples, 1, largest_count));
  line.value(
      {.name = "--exit-interval",
       .field = "exit_interval",
       .type = "N",
       .help
       = "Saves (with --save) and exits after a step that N divides. Default: runs to the end. "
         "By time: `timeout 60m troupe train gpt ...` ends a run in order, too.",
       .megatron = "with --save, saves before it exits"},
      whole(s.exit_interval, 1, largest_count));
  line.value(
      {.name = "--on-nonfinite",
       .field = "nonfinite",
       .type = "WHAT",
       .help
       = "When a step's loss or gradient is NaN or infinite. stop (default): ends with exit code "
         "2, and saves the state before that step (with --save). skip: skips the step: no "
         "update, the learning rate waits, the data goes on."},
      one_of(to.nonfinite.policy, {"stop", "skip"}));
  line.value({.name = "--max-skipped-in-a-row",
              .field = "skippable_in_a_row",
              .type = "N",
              .help = "With --on-nonfinite skip: the most such steps in a row. Default "
                      "10."},
             whole(to.nonfinite.most_in_a_row, 1, largest_count));
}

void declare_optimizer(command_line& line, training_flags& to) {
  auto& a = to.optimizer.adam;
  line.group("Optimizer");
  line.value(
      {.name = "--optimizer",
       .field = "optimizer",
       .type = "NAME",
       .help = "adam (default): AdamW, with decoupled weight decay.",
       .megatron = "adam only",
       .resume = at_resume::told},
      reader([](const std::string& flag, const std::string& word) { chosen(flag, word, {"adam"}); },
             {"adam"}));
  line.value({.name = "--adam-beta1",
              .field = "optimizer.beta1",
              .type = "X",
              .help = "Decay rate of the first moment. Default 0.9.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.beta1, 0, 1));
  line.value({.name = "--adam-beta2",
              .field = "optimizer.beta2",
              .type = "X",
              .help = "Decay rate of the second moment. Default 0.999.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.beta2, 0, 1));
  line.value({.name = "--adam-eps",
              .field = "optimizer.epsilon",
              .type = "X",
              .help = "Added to the denominator of the update. Default 1e-8.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.epsilon, 0));
  line.value({.name = "--weight-decay",
              .field = "optimizer.weight_decay",
              .type = "X",
              .help = "Weight decay of all parameters but biases and norms. Default 0.01.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(a.weight_decay, 0));
  line.value({.name = "--clip-grad",
              .field = "optimizer.clip",
              .type = "X",
              .help = "Clips gradients to this global norm; 0: no clipping. Default 1.0.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.clip, 0));
  line.value({.name = "--seed",
              .field = "seed",
              .type = "N",
              .help = "Random seed of initial weights, dropout and the sample order. Default 1234.",
              .megatron = "of weights, dropout and samples; the order of samples is that of "
                          "Megatron-LM, weights and dropout are drawn otherwise",
              .resume = at_resume::told},
             whole(to.optimizer.seed, 0, std::int64_t{4294967295}));
}

void declare_scaling(command_line& line, training_flags& to) {
  constexpr double largest = 0x1p100;
  auto& s = to.scaling;
  line.group("Loss scale: the factor of the loss with --fp16, against underflow of gradients");
  line.value(
      {.name = "--loss-scale",
       .field = "scaling.constant",
       .type = "X",
       .help
       = "A constant scale; a step that is not finite is then --on-nonfinite's. Default: it is "
         "halved and doubled as the following four say.",
       .megatron = "with --fp16; refused without, where gradients need no scaling",
       .resume = at_resume::told},
      real(s.constant, 1, largest));
  line.value({.name = "--initial-loss-scale",
              .field = "scaling.initial",
              .type = "X",
              .help = "Initial scale. Default 4294967296; it falls within a few steps.",
              .megatron = "with --fp16; refused without, where gradients need no scaling",
              .resume = at_resume::told},
             real(s.initial, 1, largest));
  line.value(
      {.name = "--min-loss-scale",
       .field = "scaling.minimum",
       .type = "X",
       .help = "Minimum scale; a step that is not finite even so is --on-nonfinite's. Default 1.",
       .megatron = "with --fp16; refused without, where gradients need no scaling",
       .resume = at_resume::told},
      real(s.minimum, 0x1p-100, largest));
  line.value({.name = "--loss-scale-window",
              .field = "scaling.window",
              .type = "N",
              .help = "Consecutive finite steps before the scale is doubled. Default 1000.",
              .megatron = "with --fp16; refused without, where gradients need no scaling",
              .resume = at_resume::told},
             whole(s.window, 1, largest_count));
  line.value(
      {.name = "--hysteresis",
       .field = "scaling.hysteresis",
       .type = "N",
       .help
       = "Steps that are not finite before the scale is halved; reset when it is doubled. Default "
         "2.",
       .megatron = "with --fp16; refused without, where gradients need no scaling",
       .resume = at_resume::told},
      whole(s.hysteresis, 1, largest_count));
}

void declare_rate(command_line& line, training_flags& to) {
  auto& r = to.rate;
  line.group("Learning rate: counted in steps (-iters) with --train-iters, else in samples");
  line.value({.name = "--lr",
              .field = "rate.maximum",
              .type = "X",
              .help = "Peak learning rate (required).",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(r.maximum, 0));
  line.value({.name = "--min-lr",
              .field = "rate.minimum",
              .type = "X",
              .help = "Final learning rate, after the decay. Default 0.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(r.minimum, 0));
  line.value({.name = "--lr-decay-style",
              .field = "rate.style",
              .type = "STYLE",
              .help = "constant, linear (default) or cosine.",
              .megatron = "constant, linear and cosine; inverse-square-root and WSD are refused",
              .resume = at_resume::scheduler},
             one_of(r.style, {"constant", "linear", "cosine"}));
  line.value({.name = "--lr-decay-iters",
              .field = "rate.decay_iterations",
              .type = "N",
              .help = "Steps until the rate has decayed to --min-lr. Default: the whole run.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(r.decay_iterations, 1, largest_count));
  line.value({.name = "--lr-decay-samples",
              .field = "rate.decay",
              .type = "N",
              .help = "The same in samples.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(r.decay_samples, 1, largest_count));
  line.value({.name = "--lr-warmup-iters",
              .field = "rate.warmup_iterations",
              .type = "N",
              .help = "Steps of linear warm-up. Default 0.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(r.warmup_iterations, 0, largest_count));
  line.value({.name = "--lr-warmup-samples",
              .field = "rate.warmup",
              .type = "N",
              .help = "The same in samples.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(r.warmup_samples, 0, largest_count));
  line.value({.name = "--lr-warmup-fraction",
              .field = "rate.warmup_fraction",
              .type = "X",
              .help = "Warm-up as a fraction of the decay.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(r.warmup_fraction, 0, 1));
  line.value({.name = "--lr-warmup-init",
              .field = "rate.warmup_start",
              .type = "X",
              .help = "Learning rate at the start of the warm-up. Default 0.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(r.warmup_start, 0));
}

void declare_watching(command_line& line, training_flags& to) {
  auto& w = to.watch;
  line.group("Watching");
  line.value({.name = "--log-interval",
              .field = "watch.log_interval",
              .type = "N",
              .help = "Steps between two lines; the last step of a run has one, too. Default 100.",
              .megatron = "also tokens/s"},
             whole(w.log_interval, 1, largest_count));
  line.toggle(
      {.name = "--log-throughput",
       .field = "watch.log_throughput",
       .help = "Adds floating-point operations a second (of the model, as Megatron-LM counts them) "
               "and MFU, their share of the peak rate of matrix products.",
       .megatron = "of all workers together; also the share of what matrix products reach"},
      [&w] { w.log_throughput = true; });
  line.value(
      {.name = "--matrix-rate",
       .field = "watch.matrix_rate",
       .type = "TFLOPS",
       .help
       = "Peak rate of all workers' matrix products together, in TFLOP/s. Default: measured at "
         "the start, in a fifth of a second."},
      real(to.matrix_rate, 1e-6, 1e9));
  line.toggle({.name = "--log-params-norm",
               .field = "watch.log_params_norm",
               .help = "Adds the norm of all parameters.",
               .megatron = ""},
              [&w] { w.log_params_norm = true; });
  line.toggle({.name = "--log-num-zeros-in-grad",
               .field = "watch.log_zero_gradients",
               .help = "Adds how many elements of the gradient are zero.",
               .megatron = ""},
              [&w] { w.log_zero_gradients = true; });
  line.value(
      {.name = "--log-file",
       .field = "watch.log_file",
       .type = "FILE",
       .help
       = "A JSON object for every step; `troupe plot` draws it. A run that resumes appends, after "
         "cutting what came after its checkpoint; any other starts the log anew. Default: "
         "log.jsonl "
         "in "
         "the --save folder, if there is one."},
      text(w.log_file));
  line.value({.name = "--log-csv",
              .field = "watch.csv_file",
              .type = "FILE",
              .help = "The same as a table, a row for every step."},
             text(w.csv_file));
  line.value(
      {.name = "--tensorboard-dir",
       .field = "watch.board_dir",
       .type = "DIR",
       .help
       = "Event files for TensorBoard, with Megatron-LM's names. A run that resumes adds one.",
       .megatron = ""},
      text(w.board_dir));
  line.value({.name = "--tensorboard-log-interval",
              .field = "watch.board_interval",
              .type = "N",
              .help = "Steps between two that are written there. Default 1.",
              .megatron = ""},
             whole(w.board_interval, 1, largest_count));
  line.value(
      {.name = "--record-schedule",
       .field = "watch.schedule_record",
       .type = "FILE",
       .help
       = "The last step that was executed, as a plan in CSV, which --pipeline-schedule and "
         "`troupe schedule` take: the plan, or what a behaviour decided on the slowest replica."},
      text(w.schedule_record));
  line.value({.name = "--trace",
              .field = "watch.trace_file",
              .type = "FILE",
              .help = "Every action of every worker, for Chrome's or Perfetto's viewer."},
             text(w.trace_file));
  line.value(
      {.name = "--profile-operations",
       .field = "watch.profile_file",
       .type = "FILE",
       .help
       = "Times every operation, from the third step on: the longest as a table in the end, all "
         "of them as JSON. Bits do not change."},
      text(w.profile_file));
  line.value({.name = "--eval-interval",
              .field = "watch.eval_interval",
              .type = "N",
              .help = "Steps between two validations; 0: never. Default 1000.",
              .megatron = "the default is 1000, as it was in earlier versions; 0: never"},
             whole(w.eval_interval, 0, largest_count));
  line.value({.name = "--eval-iters",
              .field = "watch.eval_batches",
              .type = "N",
              .help = "Global batches of one validation; 0: never. Default 100.",
              .megatron = ""},
             whole(w.eval_batches, 0, largest_count));
  line.toggle({.name = "--no-progress",
               .field = "watch.progress=false",
               .help = "No progress bar, on a terminal either."},
              [&w] { w.progress = false; });
}

void declare_device(command_line& line, training_flags& to) {
  auto& d = to.device;
  line.group("Device");
  line.value(
      {.name = "--backend",
       .field = "backend",
       .type = "NAME",
       .help
       = "What computes. auto (default): cuda where a device can be used, else cpu. cuda; cpu; "
         "reference: plain loops with double sums, slow, which judges the others.",
       .resume = at_resume::told},
      one_of(d.backend, {"auto", "cuda", "cpu", "reference"}));
  line.value(
      {.name = "--devices",
       .field = "devices.numbers",
       .type = "N,N,...",
       .help
       = "GPUs of this machine, counted from 0, for the workers in turn: several may share one. "
         "Default: all of them."},
      text(d.numbers));
  line.toggle(
      {.name = "--allow-tf32",
       .field = "devices.tf32",
       .help
       = "Products of fp32 on a GPU may round their inputs to 10 bits of fraction: faster, and "
         "other bits.",
       .resume = at_resume::told},
      [&d] { d.tf32 = true; });
  line.value(
      {.name = "--product-choices",
       .field = "devices.product_choices",
       .type = "FILE",
       .help
       = "Where the algorithms of matrix products on a GPU are kept, each measured once, so that "
         "every later run has the same bits; beside the checkpoints too. Default: "
         "~/.cache/troupe/products.json. none: nothing is measured, the library's first guess "
         "is taken.",
       .resume = at_resume::told},
      text(d.product_choices));
  line.value(
      {.name = "--collectives",
       .field = "devices.exchange",
       .type = "NAME",
       .help
       = "How workers on GPUs sum and exchange. local (default): they read each other's memory. "
         "nccl: NCCL moves, sums are taken in rank order: the same bits. nccl-fast: NCCL sums in "
         "an order of its own: other bits, the same again in every run on such machines.",
       .resume = at_resume::told},
      one_of(d.collectives, {"local", "nccl", "nccl-fast"}));
  line.value(
      {.name = "--transport",
       .field = "transport",
       .type = "NAME",
       .help
       = "How batches, activations and gradients go from worker to worker. tickets (default): they "
         "change hands, nothing is copied. ucx: by UCX on this machine, as between processes: the "
         "same bits, slower; to try what such a run will do."},
      one_of(d.transport, {"tickets", "ucx"}));
}

void declare_testing(command_line& line, training_flags& to) {
  auto& d = to.faults;
  line.group("Testing");
  line.toggle({.name = "--check-messages",
               .field = "check_messages",
               .help = "Every message goes through bytes before it is delivered, as between "
                       "processes; one that does not come back equal ends the run."},
              [&to] { to.check_messages = true; });
  line.value(
      {.name = "--plant-fault",
       .field = "faults.fault",
       .type = "WHO@STEP",
       .help
       = "That actor fails in that step, e.g. stage:0.1@3: replica 0, stage 1; stage:0.1.2 is its "
         "tensor rank 2. lane:R.P.T fails in its reduction, wire:R.P.T beside it. With nan:R.P.T "
         "one "
         "of its gradients is NaN; with save:R.P.T, on a device, it reads its snapshot half a "
         "second "
         "late. @3-5 means three steps."},
      text(d.fault));
  line.value(
      {.name = "--plant-delays",
       .field = "faults.delays",
       .type = "SEED,LANE,MESSAGE",
       .help = "Random sleeps of up to LANE microseconds before work and MESSAGE before delivery. "
               "They must change no bit."},
      [&d](const std::string& flag, const std::string& word) {
        const auto first = word.find(','), last = word.rfind(',');
        if (first == std::string::npos || first == last)
          throw usage_error("{} '{}': give three numbers, SEED,LANE_US,MESSAGE_US", flag, word);
        constexpr std::int64_t longest_us = 10'000'000;
        d.seed = std::uint64_t(parse_whole(flag, word.substr(0, first), 0, largest_count));
        d.lane_delay_us
            = int(parse_whole(flag, word.substr(first + 1, last - first - 1), 0, longest_us));
        d.message_delay_us = int(parse_whole(flag, word.substr(last + 1), 0, longest_us));
      });
}

}  // namespace

void declare(command_line& line, training_flags& to) {
  line.configurable();
  declare_shape(line, to);
  declare_function(line, to);
  declare_rotary(line, to);
  declare_data(line, to);
  declare_steps(line, to);
  declare_optimizer(line, to);
  declare_scaling(line, to);
  declare_rate(line, to);
  declare_layout(line, to);
  declare_stages(line, to);
  declare_schedule(line, to);
  declare_reduction(line, to);
  declare_recompute(line, to);
  declare(line, to.checkpoints);
  declare_watching(line, to);
  declare_device(line, to);
  declare_testing(line, to);
  declare_table(line, to);
  line.note(
      "Example, with made-up data: troupe train gpt --num-layers 2 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 64 --micro-batch-size 4 --train-iters 100 --lr 1e-3 "
      "--mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --eval-iters 0 "
      "--log-interval 10");
  line.note(
      "A flag that is given twice counts as given last; of one that takes any number of words all "
      "count. Flags of Megatron-LM that decide nothing "
      "here are accepted, flags that would decide something this build cannot do are refused with "
      "the reason: `troupe train gpt --help-megatron` lists all.");
}

runtime::training_job training_job_from(const std::vector<std::string>& words) {
  training_flags flags;
  command_line line("troupe train gpt", "");
  declare(line, flags);
  line.runs([] { return 0; });
  line.parse(words);
  return resolve(flags, words);
}

}  // namespace troupe::command
