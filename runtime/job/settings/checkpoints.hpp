// Checkpoints of a job: what it loads, saves and keeps.

#pragma once

#include "runtime/core/setting.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace troupe::runtime {

struct checkpoint_settings {
  std::filesystem::path save;       ///< empty: none
  std::filesystem::path load;       ///< empty: none
  std::uint64_t save_interval = 0;  ///< iterations; 0: only at the end
  std::filesystem::path load_hub;   ///< a Hugging Face model folder; empty: none
  /// A checkpoint or the folder of a run: a run without a checkpoint of its own takes parameters
  /// from there, and initial values for new heads; empty: none.
  std::filesystem::path pretrained;
  int keep_last = 0;  ///< older checkpoints are removed; 0: keep all
  /// Checkpoints of iterations that are multiples of this are never removed; 0: no exception.
  std::uint64_t keep_every = 0;
  /// Iterations between the snapshots that keepers write to local disks; 0: no snapshots.
  std::uint64_t local_interval = 0;
  std::filesystem::path local_folder;  ///< folder on each host
  bool finetune = false;               ///< load parameters only; iteration and data start from 0
  /// Loads a dense checkpoint as finetune does: experts begin as slices of its layers
  /// (upcycled.hpp).
  bool upcycle = false;
  std::int64_t upcycle_granularity = 1;  ///< G: slices of the dense width
  bool no_load_optim = false;            ///< moments start at 0; the iteration continues
  bool override_scheduler = false;       ///< use the learning rate of the flags
  bool use_checkpoint_scheduler = false;
  /// Pause before the first retry of the last save. It doubles with each further retry.
  std::chrono::milliseconds last_pause = std::chrono::seconds(1);
  bool strict_identity = false;  ///< refuse a checkpoint of another identity instead of a warning
  /// A restarted run fails without a checkpoint instead of starting anew.
  bool exit_on_missing = false;

  /// The setting that loads parameters only and begins at iteration 0; empty: none.
  std::string_view begins_anew_by() const {
    return upcycle ? "`checkpoints.upcycle`" : finetune ? "`checkpoints.finetune`" : "";
  }

  static constexpr auto fields() {
    using x = checkpoint_settings;
    return std::tuple(
        row("load_hub", &x::load_hub)
            .own_flag({.name = "--load-hf",
                       .type = "DIR",
                       .help = "Starts from a Hugging Face folder (config.json, model.safetensors) "
                               "with a model of this family, such as a GPT-2, Llama, BERT or T5, "
                               "or from a GGUF file, or downloads one of the Hub: ORG/NAME or "
                               "ORG/NAME@REVISION. Shape and tokenizer come from there. Flags of "
                               "this section or the next may repeat "
                               "the shape, not change it; dropout and tokenizer may be changed."}),
        row("pretrained", &x::pretrained)
            .later()
            .flag({.name = "--pretrained-checkpoint",
                   .type = "DIR",
                   .help = "For fine-tuning: a run without a checkpoint of its own takes the "
                           "parameters of this one, as --load --finetune does. New heads get "
                           "initial values. A Hugging Face folder is loaded as by --load-hf.",
                   .megatron = "for fine-tuning with --task"}),
        row("save", &x::save)
            .flag({.name = "--save",
                   .type = "DIR",
                   .help = "Folder for checkpoints; the last step is always saved. Refused if it "
                           "contains checkpoints of a run that --load does not resume.",
                   .megatron
                   = "own checkpoint format; refused if the folder has another run's checkpoints"}),
        row("load", &x::load)
            .flag({.name = "--load",
                   .type = "DIR",
                   .help = "Resumes from the latest checkpoint in DIR, or from the one named as "
                           "DIR/iter_0000100. If --save names the same folder, a restarted run "
                           "resumes by itself, and the first run starts from scratch. A Hugging "
                           "Face model folder is loaded as by --load-hf.",
                   .megatron = "Troupe's checkpoints; without one, a new run starts only if --save "
                               "names the same folder"}),
        row("save_interval", &x::save_interval)
            .flag({.name = "--save-interval",
                   .unit = "steps",
                   .default_value = "only the last step",
                   .help = "Steps between checkpoints.",
                   .megatron = "the last step is saved, too",
                   .range = whole_range{1, largest_count}}),
        row("keep_last", &x::keep_last)
            .own_flag({.name = "--keep-last",
                       .unit = "checkpoints",
                       .default_value = "all",
                       .help
                       = "Keeps the N newest checkpoints; older ones are removed once a newer "
                         "one is durable.",
                       .range = whole_range{1}}),
        row("keep_every", &x::keep_every)
            .own_flag({.name = "--keep-every",
                       .unit = "steps",
                       .default_value = "none",
                       .help = "With --keep-last: never removes checkpoints of iterations that are "
                               "multiples of N.",
                       .range = whole_range{1, largest_count}}),
        row("local_interval", &x::local_interval)
            .flag({.name = "--non-persistent-save-interval",
                   .unit = "steps",
                   .default_value = "never",
                   .help = "Interval of local snapshots, with several --processes: every N steps "
                           "each process writes the states that it keeps for a peer to "
                           "--non-persistent-local-ckpt-dir. The run resumes from them if a "
                           "process and its keeper die together. If all processes died, the same "
                           "command resumes from them; its --load must name its own --save.",
                   .megatron = "local kind only; read by recovery, and by the same run restarted "
                               "with its --run folder, --save and --load",
                   .range = whole_range{1, largest_count}}),
        row("local_folder", &x::local_folder)
            .flag({.name = "--non-persistent-local-ckpt-dir",
                   .type = "DIR",
                   .help = "Folder on a local disk of each host for "
                           "--non-persistent-save-interval; the two newest steps are kept. A "
                           "relative path starts at the working directory of the command."}),
        row("finetune", &x::finetune)
            .flag({.name = "--finetune",
                   .help
                   = "With --load: loads only the parameters. Iteration, samples, moments and "
                     "learning rate start at zero, as in a new run; --save must name another "
                     "folder."}),
        row("upcycle", &x::upcycle)
            .flag({.name = "--moe-use-upcycling",
                   .help = "With --load: begins a model with experts from a checkpoint of the same "
                           "model without them, as --finetune does. Experts are slices of its "
                           "feed-forward layers; routers begin with their initial values.",
                   .megatron = "starts training at once; later runs leave it out"}),
        row("upcycle_granularity", &x::upcycle_granularity)
            .flag({.name = "--moe-upcycling-granularity",
                   .unit = "slices",
                   .default_value = "1",
                   .help = "Slices of a feed-forward layer: --ffn-hidden-size divided by "
                           "--moe-ffn-hidden-size.",
                   .megatron = "--ffn-hidden-size must be the dense width",
                   .range = whole_range{1},
                   .only_given = true}),
        row("no_load_optim", &x::no_load_optim)
            .flag({.name = "--no-load-optim",
                   .help = "With --load: sets the moments to zero; iteration, samples and the "
                           "command line's learning rate schedule continue."}),
        row("override_scheduler", &x::override_scheduler)
            .flag({.name = "--override-opt_param-scheduler",
                   .help = "On resume, uses learning rate, decay, warm-up and weight decay from "
                           "the command line. Without this flag or the next, values that differ "
                           "from the checkpoint's are refused.",
                   .megatron = "without one of the two, a rate that differs from the checkpoint's "
                               "is refused at resume"}),
        row("use_checkpoint_scheduler", &x::use_checkpoint_scheduler)
            .flag(
                {.name = "--use-checkpoint-opt_param-scheduler",
                 .help
                 = "On resume, uses the checkpoint's values and ignores those of the command line.",
                 .megatron = "without one of the two, a rate that differs from the checkpoint's is "
                             "refused at resume"}),
        row("exit_on_missing", &x::exit_on_missing)
            .flag({.name = "--exit-on-missing-checkpoint",
                   .help = "With --load: exits with an error if the folder has no checkpoint, even "
                           "if --save names the same folder."}),
        row("strict_identity", &x::strict_identity)
            .own_flag(
                {.name = "--strict-identity",
                 .help
                 = "Refuses to resume if anything that may change bits differs: layout, threads, "
                   "data, build or machine. Without it, a difference is only a warning."}),
        row("last_pause", &x::last_pause));
  }
};

}  // namespace troupe::runtime
