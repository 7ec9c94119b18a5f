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
  line.value("--world-size",
             "N",
             "Workers. Data parallelism is what the other axes leave. Default: one replica.",
             whole(l.world, 1, most_workers));
  line.value("--tensor-model-parallel-size",
             "N",
             "Every matrix product is shared by N workers. Default 1.",
             whole(l.tensor, 1, most_workers));
  line.toggle("--sequence-parallel",
              "Between products each of them holds 1/N of the tokens, instead of all. Nothing with "
              "--tensor-model-parallel-size 1.",
              [&l] { l.sequence_parallel = true; });
  line.value("--pipeline-model-parallel-size",
             "P",
             "Pipeline stages; each holds 1/P of the layers. Default 1.",
             whole(l.pipeline, 1, most_workers));
  line.value("--context-parallel-size",
             "N",
             "1: this build does not cut samples.",
             only_one("this build does not cut samples over workers; use "
                      "--pipeline-model-parallel-size"));
  line.value("--expert-model-parallel-size",
             "N",
             "1: this build has no experts.",
             only_one("this build has no mixture-of-experts layers"));
  line.value("--expert-tensor-parallel-size",
             "N",
             "1: this build has no experts.",
             only_one("this build has no mixture-of-experts layers"));
  line.toggle("--use-tp-pp-dp-mapping",
              "Numbers pipeline stages before replicas: rank order tp-cp-ep-pp-dp.",
              [&l] { l.pipeline_before_data = true; });
  line.value("--replicas-per-worker",
             "N",
             "Every data-parallel rank plays N replicas in turn: fewer workers, the same bits "
             "for the same --threads-per-worker. Default 1.",
             whole(l.replicas_per_worker, 1, most_workers));
  line.value("--threads-per-worker",
             "N",
             "Threads of each worker's arithmetic. Part of the run's identity: another number may "
             "give other bits. Default: cores / workers, at least 1.",
             whole(l.threads, 1, 4096));
  line.toggle("--bf16",
              "Parameters and activations in bf16; the weights that are updated, their moments and "
              "gradients stay fp32.",
              [&l] { l.bf16 = true; });
  line.toggle(
      "--fp16",
      "The same in fp16, whose loss is scaled. On a CPU it saves memory and takes more time "
      "than --bf16.",
      [&l] { l.fp16 = true; });
  line.toggle(
      "--dry-run",
      "Resolves and checks flags, files and layout, prints model, layout, plan and memory, and "
      "exits; only the samples are not dealt out.",
      [&to] { to.dry_run = true; });
}

void declare_stages(command_line& line, training_flags& to) {
  auto& s = to.stages;
  line.group("Layout: uneven pipeline stages");
  line.value("--pipeline-model-parallel-layout",
             "TEXT",
             "What every stage holds, e.g. 'Et*3|(tt|)*2tL': E embedding, t layer, L loss, | next "
             "stage, *n repeats.",
             text(s.text));
  line.value("--decoder-first-pipeline-num-layers",
             "N",
             "Layers of the first stage; the others share the rest.",
             whole(s.ends.first));
  line.value("--decoder-last-pipeline-num-layers",
             "N",
             "Layers of the last stage; the others share the rest.",
             whole(s.ends.last));
  line.toggle("--account-for-embedding-in-pipeline-split",
              "The embedding counts as a layer when layers are shared out.",
              [&s] { s.ends.embedding_counts = true; });
  line.toggle("--account-for-loss-in-pipeline-split",
              "The loss counts as a layer when layers are shared out.",
              [&s] { s.ends.loss_counts = true; });
}

void declare_schedule(command_line& line, training_flags& to) {
  auto& s = to.schedule;
  line.group("Pipeline schedule: who does what when");
  line.value(
      "--pipeline-schedule",
      "HOW",
      "A name (`troupe schedule plan` lists them), FILE.csv, or FILE.lua. It is checked before "
      "anything runs. Default: 1f1b, or interleaved where a rank has several virtual stages.",
      text(s.source));
  line.value("--num-virtual-stages-per-pipeline-rank",
             "V",
             "The model is cut into V stages for each pipeline rank. Default: what the schedule is "
             "made for.",
             whole(s.virtual_stages, 1, 1 << 10));
  line.value("--num-layers-per-virtual-pipeline-stage",
             "N",
             "The same, told by the layers of each virtual stage.",
             whole(s.layers_per_virtual_stage, 1));
  line.value(
      "--microbatch-group-size-per-virtual-pipeline-stage",
      "N",
      "Of interleaved schedules: so many micro-batches of a virtual stage follow each other. "
      "Default: --pipeline-model-parallel-size.",
      whole(s.group, 1, 1 << 20));
  line.value("--pipeline-memory-limit",
             "X",
             "Of zb-h2 and auto: micro-batches whose activations a rank may hold at once, each "
             "counted as its whole share of the model.",
             real(s.memory_limit, 0.01, 1e6));
  line.value("--pipeline-times",
             "F,I,W[,C]",
             "Of auto and behaviours: what forward, input gradients, weight gradients and a "
             "transfer take, in any one unit. Default 1,1,1,0.",
             text(s.times));
}

void declare_reduction(command_line& line, training_flags& to) {
  auto& r = to.reduction;
  line.group("Gradients and optimizer state over replicas: no choice here changes a bit");
  line.toggle("--use-distributed-optimizer",
              "Every replica keeps and updates its share of master weights and moments, instead of "
              "all (ZeRO 1).",
              [&r] { r.distributed_optimizer = true; });
  line.value("--ddp-bucket-size",
             "N",
             "Gradients are summed in buckets of about N elements. Default 40000000.",
             whole(r.bucket_size, 1, std::numeric_limits<std::int64_t>::max() / 8));
  line.toggle("--overlap-grad-reduce",
              "A bucket is summed as soon as it is full, while the rest is still computed.",
              [&r] { r.overlap_gradients = true; });
  line.toggle("--overlap-param-gather",
              "Updated parameters are gathered while the next step has begun. With "
              "--use-distributed-optimizer and --overlap-grad-reduce.",
              [&r] { r.overlap_parameters = true; });
}

void declare_recompute(command_line& line, training_flags& to) {
  auto& r = to.recompute;
  line.group("Activations that are computed again instead of kept");
  line.value(
      "--recompute-granularity",
      "WHAT",
      "full: whole layers. selective: parts of each layer, see --recompute-modules. Default: "
      "nothing.",
      one_of(r.granularity, {"full", "selective"}));
  line.toggle("--recompute-activations", "The same as --recompute-granularity selective.", [&r] {
    r.activations = true;
  });
  line.value("--recompute-method",
             "HOW",
             "Of full: uniform, all layers of a stage, some at a time; or block, only the first "
             "layers of a stage, one at a time.",
             one_of(r.method, {"uniform", "block"}));
  line.value("--recompute-num-layers",
             "N",
             "Of uniform: how many at a time. Of block: how many are computed again.",
             whole(r.layers, 1));
  line.values("--recompute-modules",
              "MODULE",
              1,
              16,
              "Of selective: core_attn (default), mlp, or both.",
              [&to](const std::string& flag, const std::vector<std::string>& words) {
                read_modules(to, flag, words);
              });
}

}  // namespace troupe::command
