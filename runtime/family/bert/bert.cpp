#include "runtime/family/bert/bert.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/tasks.hpp"
#include "runtime/family/typed_family.hpp"
#include "runtime/model/layers/linear.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::int64_t classes = 2;
const loss_spec order_loss{.name = "sop loss"};

norm_options norm_of(const bert_config& c) {
  return {.epsilon = float(c.norm_epsilon)};
}

residual_sublayer sublayer(const bert_config& c,
                           const char* name,
                           const char* norm,
                           module_spec body) {
  residual_sublayer out{.name = name, .body = std::move(body), .dropout = c.hidden_dropout};
  (c.post_norm ? out.norm_after : out.norm_before) = norm_spec{norm, norm_of(c)};
  return out;
}

layer_spec layer_of(const bert_config& c) {
  // Products that add to the residual stream, scaled as in Megatron-LM.
  const auto output_deviation = c.init_std / std::sqrt(2.0 * double(c.layers));
  const attention_spec attention{.hidden = c.hidden,
                                 .heads = c.heads,
                                 .groups = c.heads,
                                 .head_size = c.head_size(),
                                 .scale = 1 / std::sqrt(double(c.head_size())),
                                 .qkv_bias = true,
                                 .output_bias = true,
                                 .dropout = c.attention_dropout,
                                 .init_std = c.init_std,
                                 .output_init_std = output_deviation,
                                 .causal = false};
  const feed_forward_spec feed_forward{.hidden = c.hidden,
                                       .ffn = c.ffn,
                                       .activation = c.activation,
                                       .bias = true,
                                       .init_std = c.init_std,
                                       .output_init_std = output_deviation};
  const bool after = c.post_norm;
  return {
      {sublayer(
           c, "self_attention", after ? "post_attention_layernorm" : "input_layernorm", attention),
       sublayer(c, "mlp", after ? "post_mlp_layernorm" : "pre_mlp_layernorm", feed_forward)}};
}

/// (B) ones: each sequence counts.
tensor all_count(stream& stream, std::int64_t B) {
  return {
      stream.constant(fmt::format("ones {}", B),
                      std::size_t(B) * sizeof(float),
                      [B](std::byte* to) { std::fill_n(reinterpret_cast<float*>(to), B, 1.0F); }),
      dtype::f32,
      {B}};
}

}  // namespace

void add(module_builder& to, const sentence_head_spec& x) {
  const auto whole = [&](const char* name, std::int64_t outputs) {
    return add_linear(to, linear_of_texts(name, outputs, x.hidden, x.init_std));
  };
  const auto pooler = whole("pooler.dense", x.hidden), head = whole("binary_head", classes);
  to.segment("binary_head", [=](tape& tape, pass& p) {
    if (!p.batch.has("is_random"))  // only logits of tokens are wanted
      return;
    const auto first = gather_rows(tape, p.hidden, first_rows(p.rows));
    auto logits = head(tape, pooler(tape, first, kernels::epilogue::tanh));
    const auto rows = logits.placements;
    const auto& targets = p.batch.at("is_random");
    p.add_loss(order_loss.name,
               rows,
               cross_entropy(tape,
                             std::move(logits),
                             targets,
                             all_count(tape.stream(), targets.size()),
                             classes,
                             p.average(order_loss.weight)));
  });
}

module_traits traits_of(const sentence_head_spec& x) {
  return {.width = x.hidden, .reads = {"is_random"}, .losses = {order_loss}};
}

module_flops forward_flops(const sentence_head_spec& x, std::int64_t /*T*/) {
  return {.parameters = 2 * double(x.hidden) * double(x.hidden + classes)};
}

model_spec bert_spec(const bert_config& c, const extension& own) {
  if (!own.name.empty() || own.feed_forward || own.loss || !own.losses.empty())
    throw input_error("a BERT takes no extension, but '{}' is given; use another family", own.name);
  model_spec out{.sequence = c.rows(), .streams = {{"encoder", c.hidden}}};
  const auto add = [&](char letter, const char* name, const char* prefix, module_spec module) {
    out.add(letter, name, prefix, "encoder", std::move(module));
  };
  auto embedding = embedding_of(c, c.positions);
  embedding.types = c.types;
  if (c.post_norm)
    embedding.norm = norm_of(c);
  add('E', "embedding", "embedding", embedding);
  for (std::int64_t l = 0; l < c.layers; ++l) {
    const auto name = "encoder.layers." + std::to_string(l);
    out.add('t', name, name, "encoder", layer_of(c), l);
  }
  if (!c.post_norm)
    add('n', "final_layernorm", "encoder", stream_norm{{"final_layernorm", norm_of(c)}, c.hidden});
  if (c.task.is_on()) {
    add('L', "head", "", task_head_spec(c));
    return out;
  }
  if (c.binary_head)
    add('P', "binary_head", "", sentence_head_spec{c.hidden, c.init_std});
  add('L',
      "head",
      "",
      head_spec{.dense = c.head_activation,
                .norm = {"lm_head.layer_norm", norm_of(c)},
                .hidden = c.hidden,
                .vocabulary = c.vocabulary,
                .padded_vocabulary = c.padded_vocabulary,
                .tied_to = "embedding.word_embeddings.weight",
                .bias = true,
                .init_std = c.init_std});
  return out;
}

}  // namespace troupe::runtime
