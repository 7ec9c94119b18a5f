#include "actors/command/checkpoint_flags.hpp"

namespace troupe::command {
namespace {

void declare_resuming(command_line& line, runtime::checkpoint_settings& to) {
  line.toggle("--finetune",
              "With --load: takes the parameters only. Iteration, samples, moments and learning "
              "rate begin at zero, as in a new run; --save names another folder.",
              [&to] { to.finetune = true; });
  line.toggle("--no-load-optim",
              "With --load: moments begin at zero; iteration, samples and the learning rate of the "
              "command line go on.",
              [&to] { to.no_load_optim = true; });
  line.toggle("--override-opt_param-scheduler",
              "At resume, learning rate, decay, warm-up and weight decay of the command line hold. "
              "Without this flag or the next, others than the checkpoint's are refused.",
              [&to] { to.override_scheduler = true; });
  line.toggle("--use-checkpoint-opt_param-scheduler",
              "At resume those of the checkpoint hold, whatever the command line says.",
              [&to] { to.use_checkpoint_scheduler = true; });
  line.toggle("--strict-identity",
              "Refuses to resume when anything differs that may change bits: layout, threads, "
              "data, build, machine. Without it the difference is told.",
              [&to] { to.strict_identity = true; });
}

}  // namespace

void declare(command_line& line, runtime::checkpoint_settings& to) {
  line.group("Checkpoints");
  line.value("--save",
             "DIR",
             "Where checkpoints go; the last step is always saved. Refused when it has checkpoints "
             "of a run that --load does not go on with.",
             text(to.save));
  line.value(
      "--load",
      "DIR",
      "Resumes from the latest checkpoint there, or from one that is named as DIR/iter_0000100. "
      "With the same folder as --save a run that is started again goes on by itself, and "
      "starts anew when there is none yet.",
      text(to.load));
  line.value("--save-interval",
             "N",
             "Steps between checkpoints. Default: only the last.",
             whole(to.save_interval, 1, largest_count));
  line.value("--keep-last",
             "N",
             "Removes older checkpoints once a newer one is durable, so that N stay. Default: none "
             "is removed.",
             whole(to.keep_last, 1));
  declare_resuming(line, to);
}

}  // namespace troupe::command
