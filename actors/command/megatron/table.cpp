#include "actors/command/megatron/table.hpp"

#include "actors/command/megatron/reasons.hpp"

#include <sstream>

namespace troupe::command::megatron {

const char* name_of(standing what) {
  switch (what) {
    case standing::works:
      return "works";
    case standing::accepted:
      return "accepted";
    case standing::coming:
      return "coming";
    case standing::refused:
      return "refused";
  }
  return "";
}

std::vector<flag_name> names_in(const flag_row& row) {
  std::istringstream words(row.names);
  std::vector<flag_name> out;
  for (std::string word; words >> word;)
    if (word.starts_with("--"))
      out.push_back({word});
    else
      ++out.back().words;
  return out;
}

std::vector<flag_section> sections() {
  return {shape_section(),          layer_section(),      layout_section(), sharding_section(),
          step_section(),           optimizer_section(),  rate_section(),   precision_section(),
          memory_section(),         kernel_section(),     data_section(),   tokenizer_section(),
          checkpoint_section(),     validation_section(), log_section(),    failure_section(),
          communication_section(),  expert_section(),     family_section(), serving_section(),
          later_training_section(), old_section()};
}

std::vector<flag_row> families() {
  using enum standing;
  return {
      {coming, eight_bits, "--fp8- --fp4-"},
      {coming, experts, "--moe-"},
      {coming, overlapped_products, "--tp-comm-"},
      {refused, rank_order, "--ddp-"},
      {refused, torch_files, "--dist-ckpt- --ckpt-"},
      {refused, board, "--tensorboard-"},
      {refused, other_services, "--wandb-"},
      {refused, supervision, "--inprocess- --rerun-"},
      {coming, no_gpu, "--cuda-graph --nccl-"},
      {refused, other_recomputation, "--recompute-"},
      {coming, serving, "--inference-"},
      {refused, reinforcement, "--rl- --grpo- --langrl-"},
      {refused, retrieval, "--retro- --retriever- --biencoder- --ict-"},
      {refused, after_training, "--export- --logits- --modelopt-"},
      {coming, sharded, "--megatron-fsdp- --fsdp-"},
      {coming, other_families, "--mamba- --mtp- --dsa- --hybrid-"},
      {refused, vision, "--vision- --dino- --swin- --img-"},
      {refused, optimizers, "--muon- --sgd- --lion-"},
      {refused, faults, "--fault-injector- --error-injection-"},
  };
}

}  // namespace troupe::command::megatron
