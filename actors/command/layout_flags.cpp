#include "actors/command/flag_groups.hpp"

#include <limits>
#include <utility>

namespace troupe::command {
namespace {

/// An axis that this build knows but cannot yet cut along.
reader only_one(std::string why) {
  return [why = std::move(why)](const std::string& flag, const std::string& word) {
    if (parse_whole(flag, word, 1, 1 << 30) != 1)
      throw usage_error("{} {} is refused: {}; give 1", flag, word, why);
  };
}

/// --recompute-modules: what this build can compute again by itself.
void read_modules(training_flags& to,
                  const std::string& flag,
                  const std::vector<std::string>& all) {
  auto& r = to.recompute;
  r.core_attention = r.feed_forward = false;
  for (const auto& module : all) {
    if (module == "core_attn")
      r.core_attention = true;
    else if (module == "mlp")
      r.feed_forward = true;
    else
      throw usage_error("{} {} is refused: {}; give core_attn, mlp or both",
                        flag,
                        module,
                        module == "layernorm"
                            ? "norms keep two numbers a row, so there is nothing to save"
                        : module == "mla_up_proj" ? "this build has no latent attention"
                        : module == "moe" || module == "moe_act" || module == "shared_experts"
                            ? "this build has no mixture-of-experts layers"
                            : "there is no such part of a layer here");
  }
  r.modules_given = true;
}

}  // namespace

void declare_layout(command_line& line, training_flags& to) {
  auto& l = to.layout;
  line.group("Layout: workers and what each holds");
  line.value(
      {.name = "--world-size",
       .field = "layout.world",
       .type = "N",
       .help = "Workers. Data parallelism is what the other axes leave. Default: one replica.",
       .resume = at_resume::told},
      whole(l.world, 1, most_workers));
  line.value({.name = "--tensor-model-parallel-size",
              .field = "layout.tensor",
              .type = "N",
              .help = "Every matrix product is shared by N workers. Default 1.",
              .megatron = "in one process: give the number of workers by --world-size",
              .resume = at_resume::told},
             whole(l.tensor, 1, most_workers));
  line.toggle(
      {.name = "--sequence-parallel",
       .field = "layout.sequence_parallel",
       .help
       = "Between products each of them holds 1/N of the tokens, instead of all. Nothing with "
         "--tensor-model-parallel-size 1.",
       .megatron = "off, with a warning, without tensor parallelism",
       .resume = at_resume::told},
      [&l] { l.sequence_parallel = true; });
  line.value({.name = "--pipeline-model-parallel-size",
              .field = "layout.pipeline",
              .type = "P",
              .help = "Pipeline stages; each holds 1/P of the layers. Default 1.",
              .megatron = "in one process: give the number of workers by --world-size",
              .resume = at_resume::told},
             whole(l.pipeline, 1, most_workers));
  line.value({.name = "--context-parallel-size",
              .field = "layout.context",
              .type = "N",
              .help = "1: this build does not cut samples.",
              .megatron = "1 only"},
             only_one("this build does not cut samples over workers; use "
                      "--pipeline-model-parallel-size"));
  line.value({.name = "--expert-model-parallel-size",
              .field = "layout.expert",
              .type = "N",
              .help = "1: this build has no experts.",
              .megatron = "1 only"},
             only_one("this build has no mixture-of-experts layers"));
  line.value({.name = "--expert-tensor-parallel-size",
              .field = "layout.expert_tensor",
              .type = "N",
              .help = "1: this build has no experts.",
              .megatron = "1 only"},
             only_one("this build has no mixture-of-experts layers"));
  line.toggle({.name = "--use-tp-pp-dp-mapping",
               .field = "layout.order",
               .help = "Numbers pipeline stages before replicas: rank order tp-cp-ep-pp-dp.",
               .megatron = "",
               .resume = at_resume::told},
              [&l] { l.pipeline_before_data = true; });
  line.value(
      {.name = "--replicas-per-worker",
       .field = "layout.replicas_per_worker",
       .type = "N",
       .help = "Every data-parallel rank plays N replicas in turn: fewer workers, the same bits "
               "for the same --threads-per-worker. Default 1.",
       .resume = at_resume::told},
      whole(l.replicas_per_worker, 1, most_workers));
  line.value(
      {.name = "--threads-per-worker",
       .field = "threads_per_worker",
       .type = "N",
       .help
       = "Threads of each worker's arithmetic. Part of the run's identity: another number may "
         "give other bits. Default: cores / workers, at least 1.",
       .resume = at_resume::told},
      whole(l.threads, 1, 4096));
  line.toggle(
      {.name = "--bf16",
       .field = "precision=bf16",
       .help
       = "Parameters and activations in bf16; the weights that are updated, their moments and "
         "gradients stay fp32.",
       .megatron = "gradients are added, summed and kept in fp32",
       .resume = at_resume::told},
      [&l] { l.bf16 = true; });
  line.toggle(
      {.name = "--fp16",
       .field = "precision=f16",
       .help
       = "The same in fp16, whose loss is scaled. On a CPU it saves memory and takes more time "
         "than --bf16.",
       .megatron = "gradients are added, summed and kept in fp32",
       .resume = at_resume::told},
      [&l] { l.fp16 = true; });
  line.toggle(
      {.name = "--dry-run",
       .field = "dry_run",
       .help
       = "Resolves and checks flags, files and layout, prints model, layout, plan and memory, and "
         "exits; the sample order is not built."},
      [&to] { to.dry_run = true; });
}

void declare_stages(command_line& line, training_flags& to) {
  auto& s = to.stages;
  line.group("Layout: uneven pipeline stages");
  line.value(
      {.name = "--pipeline-model-parallel-layout",
       .field = "layout.chunks",
       .type = "TEXT",
       .help
       = "What every stage holds, e.g. 'Et*3|(tt|)*2tL': E embedding, t layer, L loss, | next "
         "stage, *n repeats.",
       .megatron = "no m: there are no multi-token heads",
       .resume = at_resume::told},
      text(s.text));
  line.value({.name = "--decoder-first-pipeline-num-layers",
              .field = "layout.ends.first",
              .type = "N",
              .help = "Layers of the first stage; the others share the rest.",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.ends.first));
  line.value({.name = "--decoder-last-pipeline-num-layers",
              .field = "layout.ends.last",
              .type = "N",
              .help = "Layers of the last stage; the others share the rest.",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.ends.last));
  line.toggle({.name = "--account-for-embedding-in-pipeline-split",
               .field = "layout.ends.embedding_counts",
               .help = "The embedding counts as a layer when layers are shared out.",
               .megatron = "",
               .resume = at_resume::told},
              [&s] { s.ends.embedding_counts = true; });
  line.toggle({.name = "--account-for-loss-in-pipeline-split",
               .field = "layout.ends.loss_counts",
               .help = "The loss counts as a layer when layers are shared out.",
               .megatron = "",
               .resume = at_resume::told},
              [&s] { s.ends.loss_counts = true; });
}

void declare_schedule(command_line& line, training_flags& to) {
  auto& s = to.schedule;
  line.group("Pipeline schedule: who does what when");
  line.value(
      {.name = "--pipeline-schedule",
       .field = "layout.schedule.source",
       .type = "HOW",
       .help
       = "A name (`troupe schedule plan` lists them), FILE.csv, or FILE.lua. It is checked before "
         "anything runs. Default: 1f1b, or interleaved where a rank has several virtual stages.",
       .resume = at_resume::told},
      text(s.source));
  line.value(
      {.name = "--num-virtual-stages-per-pipeline-rank",
       .field = "layout.schedule.chunks_per_rank",
       .type = "V",
       .help
       = "The model is cut into V stages for each pipeline rank. Default: what the schedule is "
         "made for.",
       .megatron = "",
       .resume = at_resume::told},
      whole(s.virtual_stages, 1, 1 << 10));
  line.value({.name = "--num-layers-per-virtual-pipeline-stage",
              .field = "layout.schedule.layers_per_chunk",
              .type = "N",
              .help = "The same, told by the layers of each virtual stage.",
              .megatron = "",
              .resume = at_resume::told},
             whole(s.layers_per_virtual_stage, 1));
  line.value(
      {.name = "--microbatch-group-size-per-virtual-pipeline-stage",
       .field = "layout.schedule.group",
       .type = "N",
       .help
       = "Of interleaved schedules: so many micro-batches of a virtual stage follow each other. "
         "Default: --pipeline-model-parallel-size.",
       .megatron = ""},
      whole(s.group, 1, 1 << 20));
  line.value(
      {.name = "--pipeline-memory-limit",
       .field = "layout.schedule.memory_limit",
       .type = "X",
       .help = "Of zb-h2 and auto: micro-batches whose activations a rank may hold at once, each "
               "counted as its whole share of the model."},
      real(s.memory_limit, 0.01, 1e6));
  line.value(
      {.name = "--pipeline-times",
       .field = "layout.schedule.costs",
       .type = "F,I,W[,C]",
       .help = "Of auto and behaviours: what forward, input gradients, weight gradients and a "
               "transfer take, in any one unit. Default 1,1,1,0."},
      text(s.times));
}

void declare_reduction(command_line& line, training_flags& to) {
  auto& r = to.reduction;
  line.group("Gradients and optimizer state over replicas: no choice here changes a bit");
  line.toggle(
      {.name = "--use-distributed-optimizer",
       .field = "reduction.distributed_optimizer",
       .help
       = "Every replica keeps and updates its share of master weights and moments, instead of "
         "all (ZeRO 1).",
       .megatron = ""},
      [&r] { r.distributed_optimizer = true; });
  line.value({.name = "--ddp-bucket-size",
              .field = "reduction.bucket_size",
              .type = "N",
              .help = "Gradients are summed in buckets of about N elements. Default 40000000.",
              .megatron = "the default is 40000000 elements in every layout"},
             whole(r.bucket_size, 1, std::numeric_limits<std::int64_t>::max() / 8));
  line.toggle(
      {.name = "--overlap-grad-reduce",
       .field = "reduction.overlap_gradients",
       .help = "A bucket is summed as soon as it is full, while the rest is still computed.",
       .megatron = ""},
      [&r] { r.overlap_gradients = true; });
  line.toggle({.name = "--overlap-param-gather",
               .field = "reduction.overlap_parameters",
               .help = "Updated parameters are gathered while the next step has begun. With "
                       "--use-distributed-optimizer and --overlap-grad-reduce.",
               .megatron = "refused without --use-distributed-optimizer and --overlap-grad-reduce"},
              [&r] { r.overlap_parameters = true; });
}

void declare_recompute(command_line& line, training_flags& to) {
  auto& r = to.recompute;
  line.group("Activations that are computed again instead of kept");
  line.value(
      {.name = "--recompute-granularity",
       .field = "recompute.granularity",
       .type = "WHAT",
       .help
       = "full: whole layers. selective: parts of each layer, see --recompute-modules. Default: "
         "nothing.",
       .megatron = ""},
      one_of(r.granularity, {"full", "selective"}));
  line.toggle({.name = "--recompute-activations",
               .field = "recompute.granularity=selective",
               .help = "The same as --recompute-granularity selective.",
               .megatron = ""},
              [&r] { r.activations = true; });
  line.value(
      {.name = "--recompute-method",
       .field = "recompute.method",
       .type = "HOW",
       .help = "Of full: uniform, all layers of a stage, some at a time; or block, only the first "
               "layers of a stage, one at a time.",
       .megatron = ""},
      one_of(r.method, {"uniform", "block"}));
  line.value({.name = "--recompute-num-layers",
              .field = "recompute.layers",
              .type = "N",
              .help = "Of uniform: how many at a time. Of block: how many are computed again.",
              .megatron = ""},
             whole(r.layers, 1));
  line.values(
      {.name = "--recompute-modules",
       .field = "recompute.modules",
       .type = "MODULE",
       .help = "Of selective: core_attn (default), mlp, or both.",
       .least = 1,
       .most = 16,
       .megatron = "core_attn and mlp; norms keep next to nothing, other modules are not here"},
      [&to](const std::string& flag, const std::vector<std::string>& words) {
        read_modules(to, flag, words);
      });
}

}  // namespace troupe::command
