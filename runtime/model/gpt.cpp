#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/model/chunk.hpp"

#include <cmath>
#include <utility>

namespace troupe::runtime {
namespace {

using std::int64_t;

parameter_spec matrix(std::string name, int64_t rows, int64_t columns, double deviation) {
  return {
      .name = std::move(name), .extents = {rows, columns}, .init_std = deviation, .decays = true};
}

parameter_spec vector(std::string name, int64_t size, double constant) {
  return {.name = std::move(name), .extents = {size}, .init_constant = constant};
}

/// Adds parameters to a unit and says where each went.
class unit_builder {
 public:
  explicit unit_builder(unit_spec& unit) : unit_(unit) {}

  int add(parameter_spec x) {
    unit_.parameters.push_back(std::move(x));
    return int(unit_.parameters.size()) - 1;
  }

 private:
  unit_spec& unit_;
};

struct norm_parameters {
  int gain = no_parameter, bias = no_parameter;
};

norm_parameters add_norm(unit_builder& to, const gpt_config& c, const std::string& name) {
  norm_parameters p;
  p.gain = to.add(vector(name + ".weight", c.hidden, 1));
  if (c.normalization == kernels::normalization::layer)
    p.bias = to.add(vector(name + ".bias", c.hidden, 0));
  return p;
}

struct linear_parameters {
  int weight = no_parameter, bias = no_parameter;
};

linear_parameters add_linear(unit_builder& to,
                             const std::string& name,
                             int64_t out,
                             int64_t in,
                             double deviation,
                             bool with_bias) {
  linear_parameters p;
  p.weight = to.add(matrix(name + ".weight", out, in, deviation));
  if (with_bias)
    p.bias = to.add(vector(name + ".bias", out, 0));
  return p;
}

std::uint64_t dropout_key(const pass& p, const std::string& name) {
  return random_key(p.settings.seed, name, p.settings.step);
}

float dropout_rate(const pass& p, double rate) {
  return p.settings.training ? float(rate) : 0.0F;
}

kernels::epilogue epilogue_of(kernels::activation kind) {
  switch (kind) {
    case kernels::activation::gelu_tanh:
      return kernels::epilogue::gelu_tanh;
    case kernels::activation::gelu_erf:
      return kernels::epilogue::gelu_erf;
    case kernels::activation::squared_relu:
      return kernels::epilogue::squared_relu;
    case kernels::activation::swiglu:
      break;
  }
  return kernels::epilogue::none;
}

/// Of the products that add to the residual stream, as Megatron-LM scales them.
double output_deviation(const gpt_config& c) {
  return c.init_std / std::sqrt(2.0 * double(c.layers));
}

variable normalised(tape& on, const gpt_config& c, const variable& x, norm_parameters p) {
  return norm(on, x, c.normalization, p.gain, p.bias, float(c.norm_epsilon));
}

}  // namespace

chunk::chunk(const gpt_config& config, const chunk_range& range) : config_(config), range_(range) {
  if (config_.position == position_embedding::rope) {
    const auto rotated = int64_t(double(config_.head_size) * config_.rotary_percent) / 2 * 2;
    for (int64_t i = 0; i < rotated / 2; ++i)
      rotary_frequency_.push_back(
          float(std::pow(config_.rotary_base, -2.0 * double(i) / double(rotated))));
  }
  if (range.embedding)
    add_embedding();
  for (int64_t layer = range.first; layer < range.end; ++layer)
    add_layer(layer);
  if (range.head)
    add_head();
}

void chunk::add_embedding() {
  const auto& c = config_;
  const int unit = int(units_.size());
  unit_builder to(units_.emplace_back(unit_spec{"embedding", {}}));
  auto table
      = matrix("embedding.word_embeddings.weight", c.padded_vocabulary, c.hidden, c.init_std);
  table.valid_rows = c.vocabulary;
  const int words = to.add(std::move(table));
  int positions = no_parameter;
  if (c.position == position_embedding::learned_absolute)
    positions
        = to.add(matrix("embedding.position_embeddings.weight", c.positions, c.hidden, c.init_std));
  program_.push_back({"embedding", unit, [this, words, positions](tape& on, pass& p) {
                        const auto& shape = config_;
                        auto x = embedding(on, p.tokens, p.rows, shape.hidden, words, positions);
                        p.hidden = dropout(on,
                                           x,
                                           dropout_rate(p, shape.hidden_dropout),
                                           dropout_key(p, "embedding.dropout"),
                                           p.rows);
                      }});
}

void chunk::add_layer(int64_t layer) {
  const int unit = int(units_.size());
  const auto name = "decoder.layers." + std::to_string(layer);
  units_.push_back({name, {}});
  add_attention(unit, name, std::size_t(layer - range_.first));
  add_feed_forward(unit, name);
}

void chunk::add_attention(int unit, const std::string& layer, std::size_t in_chunk) {
  const auto& c = config_;
  const auto name = layer + ".self_attention";
  unit_builder to(units_[std::size_t(unit)]);
  const auto before = add_norm(to, c, layer + ".input_layernorm");
  const auto qkv = add_linear(
      to, name + ".linear_qkv", c.qkv_width(), c.hidden, c.init_std, c.linear_bias || c.qkv_bias);
  const auto proj = add_linear(to,
                               name + ".linear_proj",
                               c.hidden,
                               c.heads * c.head_size,
                               output_deviation(c),
                               c.linear_bias);
  const attention_options fixed{
      .heads = c.heads,
      .groups = c.groups,
      .head_size = c.head_size,
      .scale = float(1 / std::sqrt(double(c.head_size))),
      .rotary_frequency = rotary_frequency_.empty() ? nullptr : rotary_frequency_.data(),
      .rotated = int64_t(2 * rotary_frequency_.size()),
      .rotary_interleaved = c.rotary_interleaved};
  const auto core_dropout = name + ".core_attention.dropout", dropout = name + ".dropout";
  program_.push_back({name, unit, [=, this](tape& on, pass& p) {
                        const auto& shape = config_;
                        auto x = normalised(on, shape, p.hidden, before);
                        auto products = linear(on, x, shape.qkv_width(), qkv.weight, qkv.bias);
                        auto how = fixed;
                        how.dropout = dropout_rate(p, shape.attention_dropout);
                        how.key = dropout_key(p, core_dropout);
                        x = p.caches != nullptr
                                ? cached_attention(
                                    on, std::move(products), how, p.rows, p.caches->at(in_chunk))
                                : self_attention(on, std::move(products), how, p.rows);
                        x = linear(on, x, shape.hidden, proj.weight, proj.bias);
                        p.hidden = dropout_add(on,
                                               x,
                                               p.hidden,
                                               dropout_rate(p, shape.hidden_dropout),
                                               dropout_key(p, dropout),
                                               p.rows);
                      }});
}

void chunk::add_feed_forward(int unit, const std::string& layer) {
  const auto& c = config_;
  const auto name = layer + ".mlp";
  unit_builder to(units_[std::size_t(unit)]);
  const auto before = add_norm(to, c, layer + ".pre_mlp_layernorm");
  const auto fc1
      = add_linear(to, name + ".linear_fc1", c.fc1_width(), c.hidden, c.init_std, c.linear_bias);
  const auto fc2
      = add_linear(to, name + ".linear_fc2", c.hidden, c.ffn, output_deviation(c), c.linear_bias);
  program_.push_back(
      {name, unit, [=, this, dropout = name + ".dropout"](tape& on, pass& p) {
         const auto& shape = config_;
         auto x = normalised(on, shape, p.hidden, before);
         x = linear(on, x, shape.fc1_width(), fc1.weight, fc1.bias, epilogue_of(shape.activation));
         if (shape.activation == kernels::activation::swiglu)
           x = activation(on, x, shape.activation);
         x = linear(on, x, shape.hidden, fc2.weight, fc2.bias);
         p.hidden = dropout_add(on,
                                x,
                                p.hidden,
                                dropout_rate(p, shape.hidden_dropout),
                                dropout_key(p, dropout),
                                p.rows);
       }});
}

void chunk::add_head() {
  const auto& c = config_;
  const int unit = int(units_.size());
  unit_builder to(units_.emplace_back(unit_spec{"head", {}}));
  const auto last_norm = add_norm(to, c, "decoder.final_layernorm");
  auto table = matrix("output_layer.weight", c.padded_vocabulary, c.hidden, c.init_std);
  table.valid_rows = c.vocabulary;
  if (c.tied_embeddings)
    table.tied_to = "embedding.word_embeddings.weight";
  const int output = to.add(std::move(table));
  program_.push_back({"head", unit, [this, last_norm, output](tape& on, pass& p) {
                        const auto& shape = config_;
                        auto x = normalised(on, shape, p.hidden, last_norm);
                        p.hidden = {};
                        auto logits = linear(on, x, shape.padded_vocabulary, output, no_parameter);
                        if (!p.labels) {
                          p.logits = std::move(logits.data);
                          return;
                        }
                        p.loss = cross_entropy(on,
                                               std::move(logits),
                                               p.labels,
                                               p.mask,
                                               shape.vocabulary,
                                               float(p.settings.loss_scale));
                      }});
}

std::vector<chunk_range> split_evenly(const gpt_config& config, int stages) {
  if (stages < 1 || config.layers % stages != 0)
    throw input_error(
        "--pipeline-model-parallel-size {} does not divide --num-layers {}: each pipeline stage "
        "holds the same number of layers; choose a divisor of {}",
        stages,
        config.layers,
        config.layers);
  std::vector<chunk_range> out;
  const auto each = config.layers / stages;
  for (int s = 0; s < stages; ++s)
    out.push_back({s * each, (s + 1) * each, s == 0, s == stages - 1});
  return out;
}

}  // namespace troupe::runtime
