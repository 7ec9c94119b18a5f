#include "runtime/model/layers/attention.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/layers/linear.hpp"
#include "runtime/model/layers/norm.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Options on this rank, without the parts that come from the pass (frequencies, dropout).
attention_options options_of(const module_builder& to, const attention_spec& x) {
  return {.heads = x.heads / to.tensor_ranks(),
          .groups = x.groups / to.tensor_ranks(),
          .head_size = x.head_size,
          .scale = float(x.scale),
          .window = x.window,
          .rotated = x.rotated,
          .rotary_interleaved = x.rotary_interleaved,
          .causal = x.causal};
}

}  // namespace

void add_core_attention(module_builder& to,
                        const attention_options& whole,
                        const attention_options& cached,
                        double dropout,
                        const score_bias_layer& bias) {
  // Without causality each pass has the whole stream.
  const bool keeps = whole.causal;
  to.segment(
      "core",
      recompute_module::core_attention,
      [=,
       cache = keeps ? to.add_cache({cached.groups, cached.pair_width()}) : 0,
       name = to.name() + ".core_attention.dropout"](tape& tape, pass& p) {
        const bool decodes = keeps && p.caches != nullptr;
        auto options = decodes ? cached : whole;
        options.dropout = p.dropout_rate(dropout);
        options.key = p.dropout_key(name);
        options.rotary_frequency = p.rotary_frequency;
        options.same_bits = p.settings.same_bits;
        auto products = std::exchange(p.x, {});
        if (decodes) {
          auto& kept = p.caches->at(cache);
          const auto capacity = kept.capacity();
          p.x = cached_attention(
              tape, std::move(products), options, p.rows, kept, bias(tape, capacity, capacity));
          return;
        }
        p.x = self_attention(
            tape, std::move(products), options, p.rows, bias(tape, p.rows.T(), p.rows.T()));
      });
}

int add(module_builder& to, const attention_spec& x) {
  ensure(x.groups > 0 && x.heads % x.groups == 0 && x.groups % to.tensor_ranks() == 0,
         "LAYER-1: groups divide heads, and tensor ranks divide groups");
  if (x.head_norm && x.norm_rows && to.tensor_ranks() > 1)
    throw input_error(
        "`model.qk_norm_rows` normalises the heads of all tensor ranks together: give "
        "`layout.tensor` 1");
  std::vector<double> of_kinds;
  if (x.query_init_std > 0)
    of_kinds = {x.query_init_std / x.init_std, 1, 1};
  const auto qkv
      = add_linear(to,
                   {.name = "linear_qkv",
                    .outputs = x.qkv_width(),
                    .inputs = x.hidden,
                    .init_std = x.init_std,
                    .bias = x.qkv_bias,
                    .placement = row_sharded(),
                    .row_kinds = {x.heads / x.groups * x.head_size, x.head_size, x.head_size},
                    .kind_factors = of_kinds});
  norm_layer of_queries, of_keys;
  if (x.head_norm) {
    const auto size = [&](std::int64_t heads) { return (x.norm_rows ? heads : 1) * x.head_size; };
    of_queries = add_norm(to, {"q_layernorm", *x.head_norm}, size(x.heads), true);
    of_keys = add_norm(to, {"k_layernorm", *x.head_norm}, size(x.groups), true);
  }
  const auto proj = add_linear(to,
                               {.name = "linear_proj",
                                .outputs = x.hidden,
                                .inputs = x.heads * x.head_size,
                                .init_std = x.output_init_std,
                                .bias = x.output_bias,
                                .placement = column_sharded()});
  to.segment("qkv", [=, heads = options_of(to, x)](tape& tape, pass& p) {
    p.x = qkv(tape, p.x);
    if (!x.head_norm)
      return;
    const auto by = x.norm_rows ? row_norm : head_norm;
    p.x = by(tape,
             p.x,
             heads,
             *x.head_norm,
             {of_queries.gain, of_queries.bias},
             {of_keys.gain, of_keys.bias});
  });
  const auto options = options_of(to, x);
  add_core_attention(to,
                     options,
                     options,
                     x.dropout,
                     add_score_bias(to, x.relative_bias, x.alibi, x.heads, x.causal));
  to.segment("proj", [=](tape& tape, pass& p) { p.x = proj(tape, p.x); });
  return proj.late_bias;
}

module_traits traits_of(const attention_spec& x) {
  module_traits out{.width = x.hidden};
  if (x.relative_bias && !x.relative_bias->tied_to.empty())
    out.tied_to = {x.relative_bias->tied_to};
  return out;
}

module_flops forward_flops(const attention_spec& x, std::int64_t T) {
  const auto rows = double(T), width = double(x.heads * x.head_size);
  const auto back = std::min(double(x.window), rows - 1);
  auto scores = x.causal ? rows * rows / 2 : rows * rows;
  if (x.causal && x.window >= 0)
    scores = std::min(scores, rows * (back + 1) - back * (back + 1) / 2);
  return {.parameters = 2 * rows * double(x.hidden) * (double(x.qkv_width()) + width),
          .activations = 4 * width * scores};  // scores, then the sum of the values
}

int add(module_builder& to, const cross_attention_spec& x) {
  ensure(x.groups > 0 && x.heads % x.groups == 0 && x.groups % to.tensor_ranks() == 0,
         "LAYER-1: groups divide heads, and tensor ranks divide groups");
  const auto q = add_linear(to,
                            {.name = "linear_q",
                             .outputs = x.heads * x.head_size,
                             .inputs = x.hidden,
                             .init_std = x.query_init_std > 0 ? x.query_init_std : x.init_std,
                             .bias = x.input_bias,
                             .placement = row_sharded()});
  const auto kv = add_linear(to,
                             {.name = "linear_kv",
                              .outputs = 2 * x.groups * x.head_size,
                              .inputs = x.key_width,
                              .init_std = x.init_std,
                              .bias = x.input_bias,
                              .placement = row_sharded(),
                              .row_kinds = {x.head_size, x.head_size}});
  const auto proj = add_linear(to,
                               {.name = "linear_proj",
                                .outputs = x.hidden,
                                .inputs = x.heads * x.head_size,
                                .init_std = x.output_init_std,
                                .bias = x.output_bias,
                                .placement = column_sharded()});
  const auto cache = to.add_cache({0});
  to.segment("kv", [=](tape& tape, pass& p) {
    if (p.caches != nullptr && is_filled(p.caches->at(cache)))
      return;
    auto products = kv(tape, p.streams.at(x.keys));
    if (p.caches != nullptr)
      fill_cross_cache(p.caches->at(cache), products, p.rows_of.at(x.keys));
    else
      p.locals.insert_or_assign("kv", std::move(products));
  });
  to.segment("q", [=](tape& tape, pass& p) { p.x = q(tape, p.x); });
  const attention_options whole{.heads = x.heads / to.tensor_ranks(),
                                .groups = x.groups / to.tensor_ranks(),
                                .head_size = x.head_size,
                                .scale = float(x.scale),
                                .causal = false};
  to.segment("core",
             recompute_module::core_attention,
             [=, name = to.name() + ".core_attention.dropout"](tape& tape, pass& p) {
               auto options = whole;
               options.dropout = p.dropout_rate(x.dropout);
               options.key = p.dropout_key(name);
               options.same_bits = p.settings.same_bits;
               const auto queries = std::exchange(p.x, {});
               p.x = p.caches != nullptr
                         ? cached_cross_attention(
                             tape, queries, options, p.rows, p.caches->at(cache))
                         : cross_attention(
                             tape, queries, p.take("kv"), options, p.rows, p.rows_of.at(x.keys));
             });
  to.segment("proj", [=](tape& tape, pass& p) { p.x = proj(tape, p.x); });
  return proj.late_bias;
}

module_traits traits_of(const cross_attention_spec& x) {
  return {.width = x.hidden, .reads = {x.keys}};
}

module_flops forward_flops(const cross_attention_spec& x, std::int64_t T) {
  const auto rows = double(T), keys = double(x.key_rows), width = double(x.heads * x.head_size);
  const auto pairs = double(2 * x.groups * x.head_size);
  return {
      .parameters = 2 * (2 * rows * double(x.hidden) * width + keys * double(x.key_width) * pairs),
      .activations = 4 * width * rows * keys};
}

}  // namespace troupe::runtime
