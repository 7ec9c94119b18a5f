// The experts of a GPT: a member of gpt_config. JSON has it only if there are experts.

#pragma once

#include "runtime/core/setting.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct experts_config {
  std::int64_t number = 0;      ///< E; 0: no experts
  std::string layers = "1";     ///< see layers_with_experts
  std::int64_t ffn = 0;         ///< of an expert, after the activation
  std::int64_t latent = 0;      ///< width of the rows that experts get; 0: C
  std::int64_t shared_ffn = 0;  ///< of all shared experts together; 0: none
  bool shared_gate = false;
  std::int64_t chosen = 2;  ///< k
  std::string score = "softmax";
  bool pre_softmax = false;
  double scale = 1;
  std::int64_t groups = 0, group_topk = 0;  ///< 0: one group
  std::string group_score = "sum";  ///< of the chosen / group_topk best experts; "max": the best
  std::vector<std::string> balance = {"aux_loss"};
  std::vector<double> balance_weights = {0};
  double z_weight = 0, jitter = 0;
  bool expert_bias = false;
  double bias_rate = 1e-3;
  double quantile_decay = 0;
  double capacity = 0;  ///< 0: no limit
  bool pads = false;
  std::string drops = "probs";
  bool forced_balance = false;

  friend bool operator==(const experts_config&, const experts_config&) = default;

  bool balances_by(std::string_view name) const {
    return std::find(balance.begin(), balance.end(), name) != balance.end();
  }
  /// True if a bias of each expert is a parameter.
  bool has_bias() const { return expert_bias || balances_by("quantile_balancing"); }

  static constexpr auto changed_at_resume = at_resume::refused;
  static constexpr auto fields() {
    using x = experts_config;
    return std::tuple(
        row("number", &x::number)
            .flag({.name = "--num-experts",
                   .unit = "experts",
                   .default_value = "no experts",
                   .help = "Experts of each mixture-of-experts layer (E).",
                   .range = whole_range{1, 2048},
                   .only_given = true}),
        row("layers", &x::layers)
            .flag({.name = "--moe-layer-freq",
                   .type = "PATTERN",
                   .default_value = "1",
                   .help = "Layers with experts: N for each N-th layer from the first one, or a "
                           "list of 0 and 1 such as '([0]*3+[1]*58)'.",
                   .megatron = "N or a list, written as a sum of products of lists",
                   .only_given = true}),
        row("ffn", &x::ffn)
            .flag({.name = "--moe-ffn-hidden-size",
                   .unit = "channels",
                   .default_value = "--ffn-hidden-size",
                   .help = "Width of an expert.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("latent", &x::latent)
            .flag({.name = "--moe-latent-size",
                   .unit = "channels",
                   .default_value = "--hidden-size",
                   .help = "Projects rows to this width before they travel to experts.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("shared_ffn", &x::shared_ffn)
            .flag({.name = "--moe-shared-expert-intermediate-size",
                   .unit = "channels",
                   .default_value = "no shared experts",
                   .help = "Width of all shared experts together.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("shared_gate", &x::shared_gate)
            .flag({.name = "--moe-shared-expert-gate",
                   .help = "Multiplies the shared experts by a sigmoid of a product of the row."}),
        row("chosen", &x::chosen)
            .flag({.name = "--moe-router-topk",
                   .unit = "experts",
                   .default_value = "2",
                   .help = "Experts of each row (k).",
                   .range = whole_range{1, 2048},
                   .only_given = true}),
        row("score", &x::score)
            .flag({.name = "--moe-router-score-function",
                   .type = "NAME",
                   .default_value = "softmax",
                   .help = "Score of an expert: softmax, sigmoid or sqrtsoftplus.",
                   .choices = "softmax sigmoid sqrtsoftplus",
                   .only_given = true}),
        row("pre_softmax", &x::pre_softmax)
            .flag({.name = "--moe-router-pre-softmax",
                   .help = "Softmax over all experts. Without it, over the chosen ones."}),
        row("scale", &x::scale)
            .flag({.name = "--moe-router-topk-scaling-factor",
                   .default_value = "1",
                   .help = "Factor of the weights of the chosen experts.",
                   .range = real_range{.least = 0, .above = true},
                   .only_given = true}),
        row("groups", &x::groups)
            .flag({.name = "--moe-router-num-groups",
                   .unit = "groups",
                   .default_value = "one group",
                   .help = "Groups of neighbouring experts, with --moe-router-group-topk.",
                   .range = whole_range{1, 2048},
                   .only_given = true}),
        row("group_topk", &x::group_topk)
            .flag({.name = "--moe-router-group-topk",
                   .unit = "groups",
                   .default_value = "one group",
                   .help = "Groups from which a row chooses its experts.",
                   .range = whole_range{1, 2048},
                   .only_given = true}),
        row("group_score", &x::group_score)
            .own_flag({.name = "--moe-router-group-score",
                       .type = "NAME",
                       .default_value = "sum",
                       .help
                       = "Score of a group: the sum of its k / groups chosen best experts, or "
                         "its best one (max), as in DeepSeek-V2.",
                       .choices = "sum max",
                       .only_given = true}),
        row("balance", &x::balance)
            .flag({.name = "--moe-router-load-balancing-type",
                   .type = "NAME",
                   .default_value = "aux_loss",
                   .help = "What balances experts: aux_loss, seq_aux_loss, global_aux_loss or "
                           "several of these, sinkhorn, quantile_balancing or none.",
                   .most = 3,
                   .only_given = true}),
        row("balance_weights", &x::balance_weights)
            .flag({.name = "--moe-aux-loss-coeff",
                   .type = "X",
                   .default_value = "0",
                   .help = "Weight of each loss of --moe-router-load-balancing-type.",
                   .most = 3,
                   .range = real_range{0},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("z_weight", &x::z_weight)
            .flag({.name = "--moe-z-loss-coeff",
                   .default_value = "0",
                   .help = "Weight of the mean square of the log-sum-exp of the router's logits.",
                   .range = real_range{0},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("jitter", &x::jitter)
            .flag({.name = "--moe-input-jitter-eps",
                   .default_value = "0",
                   .help = "Multiplies the router's input by random factors from 1 - X to 1 + X.",
                   .range = real_range{.least = 0, .most = 1},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("expert_bias", &x::expert_bias)
            .flag({.name = "--moe-router-enable-expert-bias",
                   .help = "Balances experts by a bias of their scores, for the choice only."}),
        row("bias_rate", &x::bias_rate)
            .flag({.name = "--moe-router-bias-update-rate",
                   .default_value = "0.001",
                   .help = "Change of that bias in a step.",
                   .range = real_range{0},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("quantile_decay", &x::quantile_decay)
            .flag({.name = "--moe-router-quantile-balancing-ema",
                   .default_value = "0",
                   .help = "Share of the old bias in the next one, with quantile_balancing.",
                   .range = real_range{.least = 0, .most = 1, .below = true},
                   .only_given = true,
                   .resume = at_resume::told}),
        row("capacity", &x::capacity)
            .flag({.name = "--moe-expert-capacity-factor",
                   .default_value = "no limit",
                   .help = "Most rows of an expert, in units of an equal share.",
                   .range = real_range{.least = 0, .above = true},
                   .only_given = true}),
        row("pads", &x::pads)
            .flag({.name = "--moe-pad-expert-input-to-capacity",
                   .help = "Gives each expert as many rows as its capacity."}),
        row("drops", &x::drops)
            .flag({.name = "--moe-token-drop-policy",
                   .type = "NAME",
                   .default_value = "probs",
                   .help = "Rows that stay within the capacity: those with the largest weights "
                           "(probs), or the first ones (position).",
                   .choices = "probs position",
                   .only_given = true}),
        row("forced_balance", &x::forced_balance)
            .flag({.name = "--moe-router-force-load-balancing",
                   .help = "Rows choose experts in turn, for benchmarks.",
                   .megatron = "in turn, not at random"}));
  }
};

/// True for each layer with experts; empty if `pattern` is not one. "N": layers 0, N, 2 N, ... Else
/// a list of 0 and 1 with an entry for each layer, as sums of products: "([0]*3+[1]*58)". At most
/// 10000 entries.
std::vector<bool> layers_with_experts(const std::string& pattern, std::int64_t layers);
/// The shortest such list; "1" if all layers have experts.
std::string pattern_of(const std::vector<bool>& layers);

}  // namespace troupe::runtime
