#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {
namespace {

void declare_local(command_line& line, runtime::checkpoint_settings& to) {
  line.value(
      {.name = "--non-persistent-save-interval",
       .field = "checkpoints.local_interval",
       .type = "N",
       .unit = "steps",
       .default_value = "never",
       .help = "Interval of local snapshots, with several --processes: every N steps each process "
               "writes the states that it keeps for a peer to --non-persistent-local-ckpt-dir. The "
               "run resumes from them if a process and its keeper die together. If all processes "
               "died, the same command resumes from them; its --load must name its own --save.",
       .megatron = "local kind only; read by recovery, and by the same run restarted with its "
                   "--run folder, --save and --load"},
      whole(to.local_interval, 1, largest_count));
  line.value(
      {.name = "--non-persistent-local-ckpt-dir",
       .field = "checkpoints.local_folder",
       .type = "DIR",
       .help
       = "Folder on a local disk of each host for --non-persistent-save-interval; the two newest "
         "steps are kept. A relative path starts at the working directory of the command.",
       .megatron = ""},
      text(to.local_folder));
}

void declare_resuming(command_line& line, runtime::checkpoint_settings& to) {
  line.toggle(
      {.name = "--finetune",
       .field = "checkpoints.finetune",
       .help = "With --load: loads only the parameters. Iteration, samples, moments and learning "
               "rate start at zero, as in a new run; --save must name another folder.",
       .megatron = ""},
      [&to] { to.finetune = true; });
  line.toggle({.name = "--no-load-optim",
               .field = "checkpoints.no_load_optim",
               .help = "With --load: sets the moments to zero; iteration, samples and the command "
                       "line's learning rate schedule continue.",
               .megatron = ""},
              [&to] { to.no_load_optim = true; });
  line.toggle(
      {.name = "--override-opt_param-scheduler",
       .field = "checkpoints.override_scheduler",
       .help
       = "On resume, uses learning rate, decay, warm-up and weight decay from the command line. "
         "Without this flag or the next, values that differ from the checkpoint's are refused.",
       .megatron
       = "without one of the two, a rate that differs from the checkpoint's is refused at resume"},
      [&to] { to.override_scheduler = true; });
  line.toggle(
      {.name = "--use-checkpoint-opt_param-scheduler",
       .field = "checkpoints.use_checkpoint_scheduler",
       .help = "On resume, uses the checkpoint's values and ignores those of the command line.",
       .megatron
       = "without one of the two, a rate that differs from the checkpoint's is refused at resume"},
      [&to] { to.use_checkpoint_scheduler = true; });
  line.toggle({.name = "--exit-on-missing-checkpoint",
               .field = "checkpoints.exit_on_missing",
               .help = "With --load: exits with an error if the folder has no checkpoint, even if "
                       "--save names the same folder.",
               .megatron = ""},
              [&to] { to.exit_on_missing = true; });
  line.toggle(
      {.name = "--strict-identity",
       .field = "checkpoints.strict_identity",
       .help = "Refuses to resume if anything that may change bits differs: layout, threads, data, "
               "build or machine. Without it, a difference is only a warning."},
      [&to] { to.strict_identity = true; });
}

}  // namespace

void declare_checkpoints(command_line& line, training_flags& flags) {
  auto& to = flags.job.checkpoints;
  line.group("Checkpoints");
  line.value(
      {.name = "--save",
       .field = "checkpoints.save",
       .type = "DIR",
       .help = "Folder for checkpoints; the last step is always saved. Refused if it contains "
               "checkpoints of a run that --load does not resume.",
       .megatron = "own checkpoint format; refused if the folder has another run's checkpoints"},
      text(to.save));
  line.value(
      {.name = "--load",
       .field = "checkpoints.load",
       .type = "DIR",
       .help
       = "Resumes from the latest checkpoint in DIR, or from the one named as DIR/iter_0000100. If "
         "--save names the same folder, a restarted run resumes by itself, and the first run "
         "starts from scratch. A Hugging Face model folder is loaded as by --load-hf.",
       .megatron = "Troupe's checkpoints; without one, a new run starts only if --save names the "
                   "same folder"},
      text(to.load));
  line.value({.name = "--save-interval",
              .field = "checkpoints.save_interval",
              .type = "N",
              .unit = "steps",
              .default_value = "only the last step",
              .help = "Steps between checkpoints.",
              .megatron = "the last step is saved, too"},
             whole(to.save_interval, 1, largest_count));
  line.value(
      {.name = "--keep-last",
       .field = "checkpoints.keep_last",
       .type = "N",
       .unit = "checkpoints",
       .default_value = "all",
       .help
       = "Keeps the N newest checkpoints; older ones are removed once a newer one is durable."},
      whole(to.keep_last, 1));
  line.value(
      {.name = "--keep-every",
       .field = "checkpoints.keep_every",
       .type = "N",
       .unit = "steps",
       .default_value = "none",
       .help
       = "With --keep-last: never removes checkpoints of iterations that are multiples of N."},
      whole(to.keep_every, 1, largest_count));
  declare_local(line, to);
  declare_resuming(line, to);
}

}  // namespace troupe::command::settings
