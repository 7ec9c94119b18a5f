#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {
namespace {

/// Reads --recompute-modules: the parts of a layer that this build can recompute separately.
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
                            ? "norms keep only two numbers per row, so nothing is saved"
                        : module == "mla_up_proj" ? "this build has no latent attention"
                        : module == "moe" || module == "moe_act" || module == "shared_experts"
                            ? "this build has no mixture-of-experts layers"
                            : "layers have no such part");
  }
  r.modules_given = true;
}

}  // namespace

void declare_reduction(command_line& line, training_flags& to) {
  auto& r = to.job.reduction;
  line.group("Gradients and optimizer state over replicas: no choice here changes a bit");
  line.toggle(
      {.name = "--use-distributed-optimizer",
       .field = "reduction.distributed_optimizer",
       .help
       = "Each replica keeps and updates only its share of master weights and moments (ZeRO 1).",
       .megatron = ""},
      [&r] { r.distributed_optimizer = true; });
  line.value({.name = "--ddp-bucket-size",
              .field = "reduction.bucket_size",
              .type = "N",
              .unit = "elements",
              .help = "Approximate size of a gradient bucket.",
              .megatron = "the default is 40000000 elements in every layout"},
             whole(r.bucket_size, 1, largest_count));
  line.toggle(
      {.name = "--overlap-grad-reduce",
       .field = "reduction.overlap_gradients",
       .help
       = "Reduces a gradient bucket as soon as it is full, while the backward pass continues.",
       .megatron = ""},
      [&r] { r.overlap_gradients = true; });
  line.toggle({.name = "--overlap-param-gather",
               .field = "reduction.overlap_parameters",
               .help = "Gathers updated parameters while the next step runs. Needs "
                       "--use-distributed-optimizer and --overlap-grad-reduce.",
               .megatron = "refused without --use-distributed-optimizer and --overlap-grad-reduce"},
              [&r] { r.overlap_parameters = true; });
}

void declare_recompute(command_line& line, training_flags& to) {
  auto& r = to.recompute;
  line.group("Activation recomputation");
  line.value({.name = "--recompute-granularity",
              .field = "recompute.granularity",
              .type = "WHAT",
              .default_value = "no recomputation",
              .help = "What the backward pass recomputes. full: whole layers. selective: parts of "
                      "each layer, see --recompute-modules.",
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
       .help = "Layers to recompute, with --recompute-granularity full. uniform: all layers of a "
               "stage, in groups. block: only the first layers of a stage, one at a time.",
       .megatron = ""},
      one_of(r.method, {"uniform", "block"}));
  line.value({.name = "--recompute-num-layers",
              .field = "recompute.layers",
              .type = "N",
              .unit = "layers",
              .help = "With uniform: layers per group. With block: layers to recompute.",
              .megatron = ""},
             whole(r.layers, 1));
  line.values(
      {.name = "--recompute-modules",
       .field = "recompute.modules",
       .type = "MODULE",
       .default_value = "core_attn",
       .help = "With --recompute-granularity selective: core_attn, mlp, or both.",
       .least = 1,
       .most = 16,
       .megatron = "core_attn and mlp; norms keep almost nothing, and there are no other modules"},
      [&to](const std::string& flag, const std::vector<std::string>& words) {
        read_modules(to, flag, words);
      });
}

}  // namespace troupe::command::settings
