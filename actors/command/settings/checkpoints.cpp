#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {
namespace {

void declare_local(command_line& line, runtime::checkpoint_settings& to) {
  line.value({.name = "--non-persistent-save-interval",
              .field = "checkpoints.local_interval",
              .type = "N",
              .unit = "steps",
              .default_value = "never",
              .help = "With several --processes: every N steps each writes the states that it "
                      "keeps of another one to --non-persistent-local-ckpt-dir, beside the "
                      "training. When a process dies together with its keeper, the run goes on "
                      "from there; and when all have died, the same command with --load of its own "
                      "--save.",
              .megatron = "the local kind alone: read by a run that recovers, and by the same one "
                          "when it is started again with its --run folder, --save and --load"},
             whole(to.local_interval, 1, largest_count));
  line.value({.name = "--non-persistent-local-ckpt-dir",
              .field = "checkpoints.local_folder",
              .type = "DIR",
              .help = "A folder on a disk of each host, for --non-persistent-save-interval: the "
                      "two newest steps are kept there. A relative one begins where the command "
                      "was typed.",
              .megatron = ""},
             text(to.local_folder));
}

void declare_resuming(command_line& line, runtime::checkpoint_settings& to) {
  line.toggle({.name = "--finetune",
               .field = "checkpoints.finetune",
               .help = "With --load: takes the parameters only. Iteration, samples, moments and "
                       "learning rate begin at zero, as in a new run; --save names another folder.",
               .megatron = ""},
              [&to] { to.finetune = true; });
  line.toggle({.name = "--no-load-optim",
               .field = "checkpoints.no_load_optim",
               .help = "With --load: moments begin at zero; iteration, samples and the learning "
                       "rate of the command line go on.",
               .megatron = ""},
              [&to] { to.no_load_optim = true; });
  line.toggle(
      {.name = "--override-opt_param-scheduler",
       .field = "checkpoints.override_scheduler",
       .help = "At resume, learning rate, decay, warm-up and weight decay of the command line "
               "hold. Without this flag or the next, others than the checkpoint's are refused.",
       .megatron
       = "without one of the two, a rate that differs from the checkpoint's is refused at resume"},
      [&to] { to.override_scheduler = true; });
  line.toggle(
      {.name = "--use-checkpoint-opt_param-scheduler",
       .field = "checkpoints.use_checkpoint_scheduler",
       .help = "At resume those of the checkpoint hold, whatever the command line says.",
       .megatron
       = "without one of the two, a rate that differs from the checkpoint's is refused at resume"},
      [&to] { to.use_checkpoint_scheduler = true; });
  line.toggle({.name = "--exit-on-missing-checkpoint",
               .field = "checkpoints.exit_on_missing",
               .help = "With --load: where it has no checkpoint the run ends with an error, also "
                       "when --save names the same folder.",
               .megatron = ""},
              [&to] { to.exit_on_missing = true; });
  line.toggle({.name = "--strict-identity",
               .field = "checkpoints.strict_identity",
               .help = "Refuses to resume when anything differs that may change bits: layout, "
                       "threads, data, build, machine. Without it a difference is only a warning."},
              [&to] { to.strict_identity = true; });
}

}  // namespace

void declare_checkpoints(command_line& line, training_flags& flags) {
  auto& to = flags.checkpoints;
  line.group("Checkpoints");
  line.value(
      {.name = "--save",
       .field = "checkpoints.save",
       .type = "DIR",
       .help = "Where checkpoints go; the last step is always saved. Refused when it has "
               "checkpoints of a run that --load does not go on with.",
       .megatron = "a layout of our own; refused where the folder has another run's checkpoints"},
      text(to.save));
  line.value(
      {.name = "--load",
       .field = "checkpoints.load",
       .type = "DIR",
       .help
       = "Resumes from the latest checkpoint there, or from one that is named as "
         "DIR/iter_0000100. With the same folder as --save a run that is started again goes "
         "on by itself, and starts anew when there is none yet. A model folder of Hugging Face "
         "is taken as by --load-hf.",
       .megatron
       = "our checkpoints; where there are none, a new run only with the same folder as --save"},
      text(to.load));
  line.value({.name = "--save-interval",
              .field = "checkpoints.save_interval",
              .type = "N",
              .unit = "steps",
              .default_value = "only the last step",
              .help = "Steps between checkpoints.",
              .megatron = "the last step is saved, too"},
             whole(to.save_interval, 1, largest_count));
  line.value({.name = "--keep-last",
              .field = "checkpoints.keep_last",
              .type = "N",
              .unit = "checkpoints",
              .default_value = "all of them",
              .help = "Removes older checkpoints once a newer one is durable, so that N stay."},
             whole(to.keep_last, 1));
  line.value({.name = "--keep-every",
              .field = "checkpoints.keep_every",
              .type = "N",
              .unit = "steps",
              .default_value = "none",
              .help = "With --keep-last: checkpoints of iterations that are multiples of N are "
                      "never removed."},
             whole(to.keep_every, 1, largest_count));
  declare_local(line, to);
  declare_resuming(line, to);
}

}  // namespace troupe::command::settings
