#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_stages(command_line& line, training_flags& to) {
  auto& s = to.stages;
  line.group("Layout: uneven pipeline stages");
  line.value({.name = "--pipeline-model-parallel-layout",
              .field = "layout.chunks",
              .type = "TEXT",
              .help = "Contents of each stage, e.g. 'Et*3|(tt|)*2tL': E embedding, t layer, L "
                      "loss, | next stage, *n repeats.",
              .megatron = "no m: this build has no multi-token heads",
              .resume = at_resume::told},
             text(s.text));
  line.value({.name = "--decoder-first-pipeline-num-layers",
              .field = "layout.ends.first",
              .type = "N",
              .unit = "layers",
              .help = "Layers of the first stage; the others share the rest.",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.ends.first));
  line.value({.name = "--decoder-last-pipeline-num-layers",
              .field = "layout.ends.last",
              .type = "N",
              .unit = "layers",
              .help = "Layers of the last stage; the others share the rest.",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.ends.last));
  line.toggle({.name = "--account-for-embedding-in-pipeline-split",
               .field = "layout.ends.embedding_counts",
               .help = "Counts the embedding as a layer when layers are distributed over stages.",
               .megatron = "",
               .resume = at_resume::told},
              [&s] { s.ends.embedding_counts = true; });
  line.toggle({.name = "--account-for-loss-in-pipeline-split",
               .field = "layout.ends.loss_counts",
               .help = "Counts the loss as a layer when layers are distributed over stages.",
               .megatron = "",
               .resume = at_resume::told},
              [&s] { s.ends.loss_counts = true; });
}

void declare_schedule(command_line& line, training_flags& to) {
  auto& s = to.job.layout.schedule;
  line.group("Pipeline schedule");
  line.value({.name = "--pipeline-schedule",
              .field = "layout.schedule.source",
              .type = "HOW",
              .default_value = "1f1b, or interleaved with several virtual stages per rank",
              .help = "Name of a schedule (`troupe schedule plan` lists them), FILE.csv, or "
                      "FILE.lua. Checked before the run starts.",
              .resume = at_resume::told},
             text(s.source));
  line.value({.name = "--num-virtual-stages-per-pipeline-rank",
              .field = "layout.schedule.chunks_per_rank",
              .type = "V",
              .unit = "stages",
              .default_value = "as the schedule needs",
              .help = "Virtual stages per pipeline rank.",
              .megatron = "",
              .resume = at_resume::told},
             if_given(whole(s.chunks_per_rank, 1, 1 << 10)));
  line.value(
      {.name = "--num-layers-per-virtual-pipeline-stage",
       .field = "layout.schedule.layers_per_chunk",
       .type = "N",
       .unit = "layers",
       .help = "As --num-virtual-stages-per-pipeline-rank, given by the layers per virtual stage.",
       .megatron = "",
       .resume = at_resume::told},
      whole(to.layers_per_virtual_stage, 1));
  line.value({.name = "--microbatch-group-size-per-virtual-pipeline-stage",
              .field = "layout.schedule.group",
              .type = "N",
              .unit = "micro-batches",
              .default_value = "--pipeline-model-parallel-size",
              .help = "With interleaved schedules: number of micro-batches of a virtual stage that "
                      "run in sequence.",
              .megatron = ""},
             if_given(whole(s.group, 1, 1 << 20)));
  line.value({.name = "--pipeline-memory-limit",
              .field = "layout.schedule.memory_limit",
              .type = "X",
              .unit = "micro-batches",
              .help = "With zb-h2 and auto: limit of the activations that a rank holds at once. A "
                      "micro-batch counts with the rank's whole share of the model."},
             if_given(real(s.memory_limit, 0.01, 1e6)));
  line.value({.name = "--pipeline-credits",
              .field = "layout.schedule.credits",
              .type = "N",
              .unit = "micro-batches",
              .default_value = "as the schedule needs, plus two in flight",
              .help = "Activations, and as many gradients, that a stage may send before the next "
                      "one takes them. Limits what a slow stage accumulates at its predecessor. "
                      "Checked before the run starts; a validation gets as many as it needs."},
             if_given(whole(s.credits, 1, 1 << 20)));
  line.value({.name = "--pipeline-times",
              .field = "layout.schedule.costs",
              .type = "F,I,W[,C]",
              .default_value = "1,1,1,0",
              .help = "With auto and behaviours: cost of forward, input gradients, weight "
                      "gradients and a transfer, in any common unit."},
             text(to.schedule_times));
}

}  // namespace troupe::command::settings
