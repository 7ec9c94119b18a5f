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
          .rotary_interleaved = x.rotary_interleaved};
}

}  // namespace

void add_core_attention(module_builder& to,
                        const attention_options& whole,
                        const attention_options& cached,
                        double dropout) {
  to.segment("core",
             recompute_module::core_attention,
             [=,
              cache = to.add_cache({cached.groups, cached.pair_width()}),
              name = to.name() + ".core_attention.dropout"](tape& tape, pass& p) {
               auto options = p.caches != nullptr ? cached : whole;
               options.dropout = p.dropout_rate(dropout);
               options.key = p.dropout_key(name);
               options.rotary_frequency = p.rotary_frequency;
               options.same_bits = p.settings.same_bits;
               auto products = std::exchange(p.x, {});
               p.x = p.caches != nullptr
                         ? cached_attention(
                             tape, std::move(products), options, p.rows, p.caches->at(cache))
                         : self_attention(tape, std::move(products), options, p.rows);
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
  add_core_attention(to, options, options, x.dropout);
  to.segment("proj", [=](tape& tape, pass& p) { p.x = proj(tape, p.x); });
  return proj.late_bias;
}

module_traits traits_of(const attention_spec& x) {
  return {.width = x.hidden};
}

module_flops forward_flops(const attention_spec& x, std::int64_t T) {
  const auto rows = double(T), width = double(x.heads * x.head_size);
  const auto back = std::min(double(x.window), rows - 1);
  auto scores = rows * rows / 2;
  if (x.window >= 0)
    scores = std::min(scores, rows * (back + 1) - back * (back + 1) / 2);
  return {.parameters = 2 * rows * double(x.hidden) * (double(x.qkv_width()) + width),
          .activations = 4 * width * scores};  // scores, then the sum of the values
}

}  // namespace troupe::runtime
