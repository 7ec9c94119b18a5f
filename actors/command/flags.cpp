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
  line.values("--data-path",
              "PREFIX",
              1,
              1 << 20,
              "The data set PREFIX.bin and PREFIX.idx, as `troupe preprocess` or Megatron-LM write "
              "it.",
              all(d.path));
  line.toggle("--mock-data", "Made-up tokens: no files are needed.", [&d] { d.mock = true; });
  line.value("--split",
             "A,B,C",
             "Shares of training, validation and test documents. Default 969,30,1.",
             [&d](const std::string&, const std::string& word) { d.split = unquoted(word); });
  line.value("--data-cache-path",
             "DIR",
             "Keeps the order of samples there, so that it is computed once.",
             text(d.cache));
  line.toggle("--eod-mask-loss",
              "The token after the end of a document does not count in the loss.",
              [&d] { d.eod_mask_loss = true; });
  line.toggle("--reset-position-ids", "Positions start again after the end of a document.", [&d] {
    d.reset_position_ids = true;
  });
  declare(line, to.tokenizer);
}

void declare_steps(command_line& line, training_flags& to) {
  auto& s = to.steps;
  line.group("Batch and steps");
  line.value("--micro-batch-size",
             "N",
             "Samples that pass a stage at once; memory grows with it. Needed.",
             whole(s.micro, 1));
  line.value("--global-batch-size",
             "N",
             "Samples of one step, over all replicas. Default: one micro-batch a replica.",
             whole(s.global, 1));
  line.values("--rampup-batch-size",
              "START INCREMENT SAMPLES",
              3,
              3,
              "Begins with START samples a step and grows by INCREMENT until, after SAMPLES "
              "samples, it is the global batch size.",
              [&s](const std::string& flag, const std::vector<std::string>& words) {
                s.ramp.clear();
                for (const auto& word : words)
                  s.ramp.push_back(parse_whole(flag, word, 0, largest_count));
              });
  line.value("--train-iters",
             "N",
             "Steps of the whole run. Needed, or --train-samples.",
             whole(s.iterations, 0, largest_count));
  line.value("--train-samples",
             "N",
             "The same, counted in samples. Rates are then counted in samples, too.",
             whole(s.samples, 1, largest_count));
  line.value("--exit-interval",
             "N",
             "Saves (with --save) and exits after a step that N divides. Default: runs to the end. "
             "By time: `timeout 60m troupe train gpt ...` ends a run in order, too.",
             whole(s.exit_interval, 1, largest_count));
  line.value(
      "--on-nonfinite",
      "WHAT",
      "When a step's loss or gradient is NaN or infinite. stop (default): ends with exit code "
      "2, and saves the state before that step (with --save). skip: leaves the step out: no "
      "update, the learning rate waits, the data goes on.",
      one_of(to.nonfinite.policy, {"stop", "skip"}));
  line.value(
      "--max-skipped-in-a-row",
      "N",
      "With --on-nonfinite skip: so many such steps one after the other, and no more. Default "
      "10.",
      whole(to.nonfinite.most_in_a_row, 1, largest_count));
}

void declare_optimizer(command_line& line, training_flags& to) {
  auto& a = to.optimizer.adam;
  line.group("Optimizer");
  line.value(
      "--optimizer",
      "NAME",
      "adam (default): AdamW, weight decay beside the gradient.",
      reader([](const std::string& flag, const std::string& word) { chosen(flag, word, {"adam"}); },
             {"adam"}));
  line.value("--adam-beta1", "X", "Memory of the gradient. Default 0.9.", real(a.beta1, 0, 1));
  line.value("--adam-beta2", "X", "Memory of its square. Default 0.999.", real(a.beta2, 0, 1));
  line.value(
      "--adam-eps", "X", "Keeps small squares from exploding. Default 1e-8.", real(a.epsilon, 0));
  line.value("--weight-decay",
             "X",
             "Of all parameters but biases and norms. Default 0.01.",
             real(a.weight_decay, 0));
  line.value("--clip-grad",
             "X",
             "Largest norm of all gradients together; 0: no limit. Default 1.0.",
             real(a.clip, 0));
  line.value("--seed",
             "N",
             "Of initial weights, dropout and the order of samples. Default 1234.",
             whole(to.optimizer.seed, 0, std::int64_t{4294967295}));
}

void declare_scaling(command_line& line, training_flags& to) {
  constexpr double largest = 0x1p100;
  auto& s = to.scaling;
  line.group("Loss scale: by what the loss is multiplied with --fp16, lest gradients become zero");
  line.value("--loss-scale",
             "X",
             "Always this; a step that is not finite is then --on-nonfinite's. Default: it is "
             "halved and doubled as the following four say.",
             real(s.constant, 1, largest));
  line.value("--initial-loss-scale",
             "X",
             "The first. Default 4294967296, which is left within some steps.",
             real(s.initial, 1, largest));
  line.value("--min-loss-scale",
             "X",
             "The lowest; a step that is not finite even so is --on-nonfinite's. Default 1.",
             real(s.minimum, 0x1p-100, largest));
  line.value("--loss-scale-window",
             "N",
             "Steps in a row that are finite before it is doubled. Default 1000.",
             whole(s.window, 1, largest_count));
  line.value("--hysteresis",
             "N",
             "Steps that are not finite before it is halved; refilled when it is doubled. Default "
             "2.",
             whole(s.hysteresis, 1, largest_count));
}

void declare_rate(command_line& line, training_flags& to) {
  auto& r = to.rate;
  line.group("Learning rate: counted in steps (-iters) with --train-iters, else in samples");
  line.value("--lr", "X", "The highest. Needed.", real(r.maximum, 0));
  line.value("--min-lr", "X", "The lowest, after the decay. Default 0.", real(r.minimum, 0));
  line.value("--lr-decay-style",
             "STYLE",
             "constant, linear (default) or cosine.",
             one_of(r.style, {"constant", "linear", "cosine"}));
  line.value("--lr-decay-iters",
             "N",
             "Until --min-lr is reached. Default: the whole run.",
             whole(r.decay_iterations, 1, largest_count));
  line.value(
      "--lr-decay-samples", "N", "The same in samples.", whole(r.decay_samples, 1, largest_count));
  line.value("--lr-warmup-iters",
             "N",
             "Steps in which the rate rises. Default 0.",
             whole(r.warmup_iterations, 0, largest_count));
  line.value("--lr-warmup-samples",
             "N",
             "The same in samples.",
             whole(r.warmup_samples, 0, largest_count));
  line.value("--lr-warmup-fraction",
             "X",
             "The same as a share of the decay.",
             real(r.warmup_fraction, 0, 1));
  line.value("--lr-warmup-init", "X", "Where it rises from. Default 0.", real(r.warmup_start, 0));
}

void declare_watching(command_line& line, training_flags& to) {
  auto& w = to.watch;
  line.group("Watching");
  line.value("--log-interval",
             "N",
             "Steps between two lines; the last step of a run has one, too. Default 100.",
             whole(w.log_interval, 1, largest_count));
  line.toggle("--log-throughput",
              "Adds floating-point operations a second (of the model, as Megatron-LM counts them) "
              "and their share of what the machine's matrix products reach.",
              [&w] { w.log_throughput = true; });
  line.value("--matrix-rate",
             "TFLOPS",
             "What all workers' matrix products reach together, in TFLOP/s. Default: measured at "
             "the start, in a fifth of a second.",
             real(to.matrix_rate, 1e-6, 1e9));
  line.toggle(
      "--log-params-norm", "Adds the norm of all parameters.", [&w] { w.log_params_norm = true; });
  line.toggle("--log-num-zeros-in-grad", "Adds how many elements of the gradient are zero.", [&w] {
    w.log_zero_gradients = true;
  });
  line.value(
      "--log-file",
      "FILE",
      "A JSON object for every step; `troupe plot` draws it. A run that resumes appends, after "
      "cutting what came after its checkpoint; any other starts the log anew. Default: log.jsonl "
      "in "
      "the --save folder, if there is one.",
      text(w.log_file));
  line.value("--log-csv", "FILE", "The same as a table, a row for every step.", text(w.csv_file));
  line.value("--tensorboard-dir",
             "DIR",
             "Event files for TensorBoard, with Megatron-LM's names. A run that resumes adds one.",
             text(w.board_dir));
  line.value("--tensorboard-log-interval",
             "N",
             "Steps between two that are written there. Default 1.",
             whole(w.board_interval, 1, largest_count));
  line.value(
      "--record-schedule",
      "FILE",
      "The last step that was executed, as a plan in CSV, which --pipeline-schedule and "
      "`troupe schedule` take: the plan, or what a behaviour decided on the slowest replica.",
      text(w.schedule_record));
  line.value("--trace",
             "FILE",
             "Every action of every worker, for Chrome's or Perfetto's viewer.",
             text(w.trace_file));
  line.value(
      "--profile-operations",
      "FILE",
      "Times every operation, from the third step on: the longest as a table in the end, all "
      "of them as JSON. Bits do not change.",
      text(w.profile_file));
  line.value("--eval-interval",
             "N",
             "Steps between two validations; 0: never. Default 1000.",
             whole(w.eval_interval, 0, largest_count));
  line.value("--eval-iters",
             "N",
             "Global batches of one validation; 0: never. Default 100.",
             whole(w.eval_batches, 0, largest_count));
  line.toggle(
      "--no-progress", "No progress bar, on a terminal either.", [&w] { w.progress = false; });
}

void declare_device(command_line& line, training_flags& to) {
  auto& d = to.device;
  line.group("Device");
  line.value("--backend",
             "NAME",
             "What computes. auto (default): cuda where a device can be used, else cpu. cuda; cpu; "
             "reference: plain loops with double sums, slow, which judges the others.",
             one_of(d.backend, {"auto", "cuda", "cpu", "reference"}));
  line.value(
      "--devices",
      "N,N,...",
      "GPUs of this machine, counted from 0, for the workers in turn: several may share one. "
      "Default: all of them.",
      text(d.numbers));
  line.toggle(
      "--allow-tf32",
      "Products of fp32 on a GPU may round their inputs to 10 bits of fraction: faster, and "
      "other bits.",
      [&d] { d.tf32 = true; });
  line.value(
      "--product-choices",
      "FILE",
      "Where the algorithms of matrix products on a GPU are kept, each measured once, so that "
      "every later run has the same bits; beside the checkpoints too. Default: "
      "~/.cache/troupe/products.json. none: nothing is measured, the library's first guess "
      "is taken.",
      text(d.product_choices));
  line.value(
      "--collectives",
      "NAME",
      "How workers on GPUs sum and exchange. local (default): they read each other's memory. "
      "nccl: NCCL moves, sums are taken in rank order: the same bits. nccl-fast: NCCL sums in "
      "an order of its own: other bits, the same again in every run on such machines.",
      one_of(d.collectives, {"local", "nccl", "nccl-fast"}));
  line.value(
      "--transport",
      "NAME",
      "How batches, activations and gradients go from worker to worker. tickets (default): they "
      "change hands, nothing is copied. ucx: by UCX on this machine, as between processes: the "
      "same bits, slower; to try what such a run will do.",
      one_of(d.transport, {"tickets", "ucx"}));
}

void declare_testing(command_line& line, training_flags& to) {
  auto& d = to.faults;
  line.group("Testing");
  line.value(
      "--plant-fault",
      "WHO@STEP",
      "That actor fails in that step, e.g. stage:0.1@3: replica 0, stage 1; stage:0.1.2 is its "
      "tensor rank 2. lane:R.P.T fails in its reduction, wire:R.P.T beside it. With nan:R.P.T one "
      "of its gradients is NaN; with save:R.P.T, on a device, it reads its snapshot half a second "
      "late. @3-5 means three steps.",
      text(d.fault));
  line.value(
      "--plant-delays",
      "SEED,LANE,MESSAGE",
      "Random sleeps of up to LANE microseconds before work and MESSAGE before delivery. "
      "They must change no bit.",
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
