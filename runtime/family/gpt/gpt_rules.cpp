#include "runtime/family/gpt/gpt_rules.hpp"

#include "kernels/op/route.hpp"
#include "runtime/core/divisor.hpp"
#include "runtime/family/size_rules.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <set>
#include <string_view>

namespace troupe::runtime {
namespace {

using sentences = std::vector<std::string>;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

bool is_loss(std::string_view balance) {
  return is_one_of(balance, {"aux_loss", "seq_aux_loss", "global_aux_loss"});
}

void validate_pattern(const gpt_config& x, sentences& out) {
  const auto& pattern = x.experts.layers;
  auto found = layers_with_experts(pattern, x.layers);
  if (found.empty()) {
    out.push_back(fmt::format(
        "cannot read `model.experts.layers` '{}': give N for each N-th layer, or a list "
        "of 0 and 1 such as '([0]*3+[1]*58)'",
        pattern));
    return;
  }
  if (const auto entries = std::int64_t(found.size()); entries != x.layers) {
    found.resize(std::size_t(std::clamp<std::int64_t>(x.layers, 1, 10000)), found.back());
    out.push_back(fmt::format(
        "`model.experts.layers` '{}' has {} entries, but `model.layers` is {}; give '{}'",
        pattern,
        entries,
        x.layers,
        pattern_of(found)));
  } else if (std::find(found.begin(), found.end(), true) == found.end()) {
    out.push_back(
        fmt::format("`model.experts.layers` '{}' has no layer with experts; give 1 for all layers, "
                    "or leave out `model.experts.number`",
                    pattern));
  }
}

void validate_groups(const experts_config& x, sentences& out) {
  if (x.groups == 0 && x.group_topk == 0)
    return;
  if (x.groups < 1 || x.group_topk < 1) {
    out.push_back(
        fmt::format("`model.experts.groups` is {} and `model.experts.group_topk` {}: give both, or "
                    "leave both out",
                    x.groups,
                    x.group_topk));
    return;
  }
  if (x.number % x.groups != 0) {
    out.push_back(
        fmt::format("`model.experts.groups` {} does not divide `model.experts.number` {}; give {}",
                    x.groups,
                    x.number,
                    nearest_divisor(x.number, x.groups)));
    return;
  }
  const auto size = x.number / x.groups, most = std::min(x.groups, x.chosen);
  const auto least = (x.chosen + size - 1) / size;
  if (x.group_topk < least || x.group_topk > most)
    out.push_back(
        fmt::format("`model.experts.group_topk` is {}, but a row chooses {} experts from groups of "
                    "{}; give {} to {}",
                    x.group_topk,
                    x.chosen,
                    size,
                    least,
                    most));
}

void validate_score(const experts_config& x, sentences& out) {
  const auto before = out.size();
  require_choice("experts.score", x.score, {"softmax", "sigmoid", "sqrtsoftplus"}, out);
  if (out.size() > before)
    return;
  const bool softmax = x.score == "softmax";
  if (x.pre_softmax && !softmax)
    out.push_back(fmt::format(
        "`model.experts.pre_softmax` does nothing with `model.experts.score` {}; leave it out",
        x.score));
  if (softmax && !x.pre_softmax && x.chosen == 1)
    out.emplace_back(
        "`model.experts.chosen` is 1, and a softmax over one expert is always 1: add "
        "`model.experts.pre_softmax`, or choose 2 experts");
  if (x.expert_bias && softmax)
    out.emplace_back(
        "`model.experts.expert_bias` is added to scores of single experts: give "
        "`model.experts.score` sigmoid or sqrtsoftplus");
  require_choice("experts.group_score", x.group_score, {"sum", "max"}, out);
}

/// One sentence at most: later rules assume the earlier ones.
void validate_balance(const experts_config& x, sentences& out) {
  const auto& all = x.balance;
  for (const auto& name : all)
    if (!is_loss(name) && !is_one_of(name, {"sinkhorn", "quantile_balancing", "none"})) {
      out.push_back(fmt::format(
          "`model.experts.balance` {} is refused; give aux_loss, seq_aux_loss, global_aux_loss, "
          "sinkhorn, quantile_balancing or none",
          name));
      return;
    }
  const bool losses = std::all_of(all.begin(), all.end(), is_loss);
  const bool repeats = std::set<std::string>(all.begin(), all.end()).size() < all.size();
  if (all.empty() || (all.size() > 1 && (!losses || repeats))) {
    out.push_back(
        fmt::format("`model.experts.balance` has {} values; give one, or several of aux_loss, "
                    "seq_aux_loss and global_aux_loss, each once",
                    all.size()));
    return;
  }
  const auto& weights = x.balance_weights;
  const bool none = std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0; });
  if (losses ? weights.size() != all.size() : !none)
    out.push_back(
        losses ? fmt::format("`model.experts.balance_weights` needs one value for each loss of "
                             "`model.experts.balance`; give {} instead of {}",
                             all.size(),
                             weights.size())
               : fmt::format("`model.experts.balance` {} has no loss: leave out "
                             "`model.experts.balance_weights`",
                             all.front()));
  const bool sinkhorn = x.balances_by("sinkhorn"), quantile = x.balances_by("quantile_balancing");
  if (int(x.expert_bias) + int(sinkhorn) + int(quantile) + int(x.forced_balance) > 1)
    out.emplace_back(
        "give one of `model.experts.expert_bias`, `model.experts.forced_balance`, and "
        "`model.experts.balance` sinkhorn or quantile_balancing");
  if ((sinkhorn || quantile) && x.groups > 1)
    out.push_back(fmt::format(
        "`model.experts.balance` {} chooses from all experts: leave out `model.experts.groups`",
        all.front()));
  const bool has_weights_of_sinkhorn
      = x.chosen > 1 ? x.score == "softmax" && x.pre_softmax : x.score == "sigmoid";
  if (sinkhorn && (!has_weights_of_sinkhorn || x.scale != 1))  // others ignore it in Megatron-LM
    out.push_back(fmt::format(
        "`model.experts.balance` sinkhorn with `model.experts.chosen` {} has the weights of "
        "`model.experts.score` {} without `model.experts.scale`; give these, or another balance",
        x.chosen,
        x.chosen > 1 ? "softmax and `model.experts.pre_softmax`" : "sigmoid"));
  if (quantile && x.chosen == x.number)
    out.push_back(
        fmt::format("`model.experts.balance` quantile_balancing has no choice with "
                    "`model.experts.chosen` {} of {} experts; give at most {}",
                    x.chosen,
                    x.number,
                    std::max<std::int64_t>(1, x.number - 1)));
  if (x.capacity > 0 && (sinkhorn || quantile))
    out.push_back(
        fmt::format("`model.experts.capacity` needs losses as `model.experts.balance`, or none, "
                    "not {}",
                    all.front()));
}

void validate_numbers_of_experts(const experts_config& x, sentences& out) {
  const auto need = [&out](const char* setting, double value, bool right, const char* give) {
    if (!right || !std::isfinite(value))
      out.push_back(fmt::format("{} is {}; give {}", setting, value, give));
  };
  for (const auto weight : x.balance_weights)
    need("`model.experts.balance_weights`", weight, weight >= 0, "0 or more, usually 1e-2");
  need("`model.experts.z_weight`", x.z_weight, x.z_weight >= 0, "0 or more, usually 1e-3");
  need("`model.experts.jitter`", x.jitter, x.jitter >= 0 && x.jitter <= 1, "0 to 1");
  need("`model.experts.scale`", x.scale, x.scale > 0, "a positive number, usually 1");
  need("`model.experts.bias_rate`", x.bias_rate, x.bias_rate >= 0, "0 or more, usually 1e-3");
  need("`model.experts.quantile_decay`",
       x.quantile_decay,
       x.quantile_decay >= 0 && x.quantile_decay < 1,
       "0 to below 1");
  need("`model.experts.capacity`",
       x.capacity,
       x.capacity >= 0,
       "a positive number, usually 1.25, or leave it out");
  if (x.pads && !(x.capacity > 0))
    out.emplace_back(
        "`model.experts.pads` pads to the capacity of experts: add `model.experts.capacity`, or "
        "leave it out");
  require_choice("experts.drops", x.drops, {"probs", "position"}, out);
}

}  // namespace

void validate_latents(const gpt_config& x, sentences& out) {
  const auto& y = x.latent;
  const auto must = [&out](bool right, const char* sentence) {
    if (!right)
      out.emplace_back(sentence);
  };
  if (y.rotated % 2 != 0)
    out.push_back(
        fmt::format("`model.latent.rotated` is {}, but rotary embedding rotates pairs of channels; "
                    "give {}",
                    y.rotated,
                    y.rotated + 1));
  if (x.head_size != y.own_size + y.rotated)
    out.push_back(
        fmt::format("`model.head_size` is {}, but heads of latent attention have "
                    "`model.latent.own_size` {} and `model.latent.rotated` {}; leave it out",
                    x.head_size,
                    y.own_size,
                    y.rotated));
  must(y.norm_epsilon >= 0 && std::isfinite(y.norm_epsilon),
       "`model.latent.norm_epsilon` is not a positive number: give 1e-6, or leave it out");
  must(x.position == position_embedding::rope,
       "latent attention has rotary positions: give `model.position` rope or yarn");
  must(x.rotary_percent == 1,
       "`model.rotary_percent` does nothing with latent attention: give `model.latent.rotated`");
  must(x.groups == x.heads,
       "latent attention has no groups of heads: leave out `model.grouped_queries`");
  must(x.qk_norm, "latent attention normalises its latents: add `model.qk_norm`");
  must(!x.linear_bias && !x.qkv_bias,
       "latent attention has no biases: give `model.linear_bias=false`, and no `model.qkv_bias`");
  must(x.window < 0, "latent attention has no window: leave out `model.window`");
}

void validate_experts(const gpt_config& x, sentences& out) {
  const auto& y = x.experts;
  if (y.number > kernels::most_experts) {
    out.push_back(
        fmt::format("`model.experts.number` is {}; give 1 to {}", y.number, kernels::most_experts));
    return;
  }
  validate_pattern(x, out);
  if (y.chosen < 1 || y.chosen > y.number)
    out.push_back(fmt::format(
        "`model.experts.chosen` is {} of {} experts; give 1 to {}", y.chosen, y.number, y.number));
  else
    validate_groups(y, out);
  validate_score(y, out);
  validate_balance(y, out);
  validate_numbers_of_experts(y, out);
  if (y.shared_gate && y.shared_ffn == 0)
    out.emplace_back(
        "`model.experts.shared_gate` does nothing without `model.experts.shared_ffn`: add it, or "
        "leave both out");
  if (x.linear_bias)
    out.emplace_back("experts have no biases: give `model.linear_bias=false`");
}

std::optional<dense_origin> dense_origin_of(const gpt_config& x,
                                            std::int64_t granularity,
                                            sentences& wrong) {
  const auto& y = x.experts;
  if (!x.has_experts()) {
    wrong.emplace_back(
        "`checkpoints.upcycle` makes experts of dense layers, but this model has no "
        "mixture-of-experts layers: leave it out");
    return {};
  }
  const auto before = wrong.size();
  if (y.latent > 0)
    wrong.emplace_back(
        "`checkpoints.upcycle` makes experts of dense layers, which have no latent rows: leave out "
        "`model.experts.latent`");
  const auto both = std::gcd(y.number, x.ffn);
  if (granularity < 1 || both % granularity != 0)
    wrong.push_back(
        fmt::format("`checkpoints.upcycle_granularity` {} does not divide `model.experts.number` "
                    "{} and `model.ffn` {}; give {}",
                    granularity,
                    y.number,
                    x.ffn,
                    nearest_divisor(both, granularity)));
  else if (y.ffn != x.ffn / granularity)
    wrong.push_back(
        fmt::format("`model.experts.ffn` is {}, but `checkpoints.upcycle_granularity` {} cuts "
                    "`model.ffn` {} into experts of {}; give {}",
                    y.ffn,
                    granularity,
                    x.ffn,
                    x.ffn / granularity,
                    x.ffn / granularity));
  if (wrong.size() > before)
    return {};
  auto dense = x;
  dense.experts = {};
  // The weights of a row's k choices add up to 1, so those of each slice to 1 / G. If the weights
  // of all E experts add up to 1, the k choices have about k / E of it.
  const auto share
      = double(granularity) * (y.pre_softmax ? double(y.number) / double(y.chosen) : 1.0);
  // The output has the weights of three products, or of two without a gate or square.
  const bool is_cubic = x.gated || x.activation == kernels::activation::squared_relu;
  return dense_origin{dense, std::pow(share, 1.0 / (is_cubic ? 3 : 2))};
}

}  // namespace troupe::runtime
