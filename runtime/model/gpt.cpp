#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/model/rotary.hpp"

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
  /// Of parameters that every tensor rank has, the gradient is partial where rows are sharded.
  unit_builder(unit_spec& unit, bool sequence_parallel)
      : unit_(unit), partial_(sequence_parallel) {}

  int add(parameter_spec x) {
    auto& lies = x.placements[axis::tensor];
    lies.partial_gradient = lies.partial_gradient || (!lies.sharded() && partial_);
    unit_.parameters.push_back(std::move(x));
    return int(unit_.parameters.size()) - 1;
  }

 private:
  unit_spec& unit_;
  bool partial_;
};

struct norm_parameters {
  int gain = no_parameter, bias = no_parameter;
};

norm_parameters add_norm(
    unit_builder& to, const gpt_config& c, const std::string& name, int64_t size, bool heads) {
  norm_parameters p;
  auto gain = vector(name + ".weight", size, 1 - c.gain_offset);
  gain.placements[axis::tensor].partial_gradient = heads;  // each rank has its heads
  p.gain = to.add(gain);
  if (c.normalization != kernels::normalization::layer)
    return p;
  auto bias = vector(name + ".bias", size, 0);
  bias.placements[axis::tensor].partial_gradient = heads;
  p.bias = to.add(bias);
  return p;
}

struct linear_parameters {
  int weight = no_parameter, bias = no_parameter;
};

linear_parameters add_linear(unit_builder& to,
                             parameter_spec weight,
                             parameter_placement lies,
                             bool with_bias) {
  linear_parameters p;
  const auto stem = weight.name;
  auto bias = vector(stem + ".bias", weight.extents[0], 0);
  if (lies.dimension == 0)  // a row of the weight, an element of the bias
    bias.placements[axis::tensor] = lies;
  weight.name += ".weight";
  weight.placements[axis::tensor] = lies;
  p.weight = to.add(std::move(weight));
  if (with_bias)
    p.bias = to.add(std::move(bias));
  return p;
}

std::uint64_t dropout_key(const pass& p, const std::string& name) {
  return random_key(p.settings.seed, name, p.settings.step);
}

float dropout_rate(const pass& p, double rate) {
  return p.settings.training ? float(rate) : 0.0F;
}

/// Of the products that add to the residual stream, as Megatron-LM scales them.
double output_deviation(const gpt_config& c) {
  return c.init_std / std::sqrt(2.0 * double(c.layers));
}

norm_options norm_of(const gpt_config& c) {
  return {.kind = c.normalization,
          .epsilon = float(c.norm_epsilon),
          .gain_offset = float(c.gain_offset)};
}

variable normalised(tape& tape, const gpt_config& c, const variable& x, norm_parameters p) {
  return norm(tape, x, norm_of(c), p.gain, p.bias);
}

}  // namespace

chunk::chunk(const gpt_config& config,
             const chunk_range& range,
             const axis_seats& seats,
             bool sequence_parallel,
             extension own)
    : config_(config),
      range_(range),
      seats_(seats),
      sequence_parallel_(sequence_parallel && seats[axis::tensor].size > 1),
      rotary_frequency_(rotary_frequencies(config)),
      own_(std::move(own)) {
  if (own_.name.empty() && (own_.feed_forward || own_.loss))
    throw input_error(
        "an extension of the model needs a name: checkpoints tell by it what they hold; set "
        "extension::name");
  if (range.embedding)
    add_embedding();
  for (int64_t layer = range.first; layer < range.end; ++layer)
    add_layer(layer);
  if (range.head)
    add_head();
}

void chunk::add_segment(std::string name,
                        int unit,
                        int64_t layer,
                        module_kind module,
                        std::function<void(tape&, pass&)> forward) {
  program_.push_back({std::move(name), unit, layer, module, std::move(forward)});
}

/// The sum of x over the tensor ranks, with its bias, through dropout, onto the residual stream.
variable chunk::residual(
    tape& tape, pass& p, double rate, const std::string& dropout, int bias) const {
  const auto sum = reduce_from_tensor_region(tape, std::exchange(p.x, {}));
  return dropout_add(
      tape, sum, p.hidden, dropout_rate(p, rate), dropout_key(p, dropout), p.rows, bias);
}

void chunk::add_embedding() {
  const auto& c = config_;
  const int unit = int(units_.size());
  unit_builder to(units_.emplace_back(unit_spec{"embedding", {}}), sequence_parallel_);
  auto table
      = matrix("embedding.word_embeddings.weight", c.padded_vocabulary, c.hidden, c.init_std);
  table.valid_rows = c.vocabulary;
  table.placements[axis::tensor] = row_sharded();
  table.has_copies = c.tied_embeddings;
  const int words = to.add(std::move(table));
  int positions = no_parameter;
  if (c.position == position_embedding::learned_absolute)
    positions
        = to.add(matrix("embedding.position_embeddings.weight", c.positions, c.hidden, c.init_std));
  const bool together = tensor_ranks() == 1;
  add_segment("embedding", unit, -1, module_kind::other, [=, this](tape& tape, pass& p) {
    p.x = embedding(tape,
                    p.tokens,
                    p.rows,
                    config_.hidden,
                    config_.padded_vocabulary / tensor_ranks(),
                    words,
                    together ? positions : no_parameter);
  });
  add_segment("embedding.dropout", unit, -1, module_kind::other, [=, this](tape& tape, pass& p) {
    auto x = reduce_from_tensor_region(tape, std::exchange(p.x, {}));
    if (positions >= 0 && !together)
      x = add_positions(tape, x, p.rows, positions);
    p.hidden = dropout(tape,
                       x,
                       dropout_rate(p, config_.hidden_dropout),
                       dropout_key(p, "embedding.dropout"),
                       p.rows);
  });
}

void chunk::add_layer(int64_t layer) {
  const int unit = int(units_.size());
  units_.push_back({"decoder.layers." + std::to_string(layer), {}});
  add_attention(unit, layer);
  if (own_.feed_forward)
    add_own_feed_forward(unit, layer);
  else
    add_feed_forward(unit, layer);
}

attention_options chunk::attention_shape() const {
  const auto& c = config_;
  const auto concentration = rotary_concentration(c);
  return {.heads = c.heads / tensor_ranks(),
          .groups = c.groups / tensor_ranks(),
          .head_size = c.head_size,
          .scale = float(concentration * concentration / std::sqrt(double(c.head_size))),
          .window = std::int32_t(c.window),
          .rotated = int64_t(2 * rotary_frequency_.size()),
          .rotary_interleaved = c.rotary_interleaved};
}

void chunk::add_attention(int unit, int64_t layer) {
  const auto& c = config_;
  const auto stem = units_[std::size_t(unit)].name, name = stem + ".self_attention";
  unit_builder to(units_[std::size_t(unit)], sequence_parallel_);
  const auto before = add_norm(to, c, stem + ".input_layernorm", c.hidden, false);
  const auto qkv = add_linear(to,
                              matrix(name + ".linear_qkv", c.qkv_width(), c.hidden, c.init_std),
                              row_sharded(),
                              c.linear_bias || c.qkv_bias);
  norm_parameters q_norm, k_norm;
  if (c.qk_norm) {
    q_norm = add_norm(to, c, name + ".q_layernorm", c.head_size, tensor_ranks() > 1);
    k_norm = add_norm(to, c, name + ".k_layernorm", c.head_size, tensor_ranks() > 1);
  }
  const auto proj = add_linear(
      to,
      matrix(name + ".linear_proj", c.hidden, c.heads * c.head_size, output_deviation(c)),
      column_sharded(),
      c.linear_bias);
  add_segment(name + ".norm", unit, layer, module_kind::other, [=, this](tape& tape, pass& p) {
    p.x = normalised(tape, config_, p.hidden, before);
  });
  add_segment(name + ".qkv", unit, layer, module_kind::other, [=, this](tape& tape, pass& p) {
    p.x = linear(tape,
                 copy_to_tensor_region(tape, p.x),
                 product::column,
                 config_.qkv_width() / tensor_ranks(),
                 qkv.weight,
                 qkv.bias);
    if (config_.qk_norm)
      p.x = head_norm(tape,
                      p.x,
                      attention_shape(),
                      norm_of(config_),
                      {q_norm.gain, q_norm.bias},
                      {k_norm.gain, k_norm.bias});
  });
  add_core_attention(unit, layer, name);
  const bool together = tensor_ranks() == 1;
  add_segment(name + ".proj", unit, layer, module_kind::other, [=, this](tape& tape, pass& p) {
    p.x = linear(
        tape, p.x, product::row, config_.hidden, proj.weight, together ? proj.bias : no_parameter);
  });
  add_segment(name + ".residual",
              unit,
              layer,
              module_kind::other,
              [=, this, dropout = name + ".dropout"](tape& tape, pass& p) {
                p.hidden = residual(
                    tape, p, config_.hidden_dropout, dropout, together ? no_parameter : proj.bias);
              });
}

void chunk::add_core_attention(int unit, int64_t layer, const std::string& name) {
  const auto in_chunk = std::size_t(layer - range_.first);
  add_segment(name + ".core",
              unit,
              layer,
              module_kind::core_attention,
              [=, this, fixed = attention_shape(), dropout = name + ".core_attention.dropout"](
                  tape& tape, pass& p) {
                auto options = fixed;
                options.dropout = dropout_rate(p, config_.attention_dropout);
                options.key = dropout_key(p, dropout);
                options.rotary_frequency = p.rotary_frequency;
                auto products = std::exchange(p.x, {});
                p.x = p.caches != nullptr
                          ? cached_attention(
                              tape, std::move(products), options, p.rows, p.caches->at(in_chunk))
                          : self_attention(tape, std::move(products), options, p.rows);
              });
}

void chunk::add_feed_forward(int unit, int64_t layer) {
  const auto& c = config_;
  const auto stem = units_[std::size_t(unit)].name, name = stem + ".mlp";
  unit_builder to(units_[std::size_t(unit)], sequence_parallel_);
  const auto before = add_norm(to, c, stem + ".pre_mlp_layernorm", c.hidden, false);
  const auto fc1 = add_linear(to,
                              matrix(name + ".linear_fc1", c.fc1_width(), c.hidden, c.init_std),
                              row_sharded(int(kernels::fan_in(c.activation))),
                              c.linear_bias);
  const auto fc2 = add_linear(to,
                              matrix(name + ".linear_fc2", c.hidden, c.ffn, output_deviation(c)),
                              column_sharded(),
                              c.linear_bias);
  const auto add = [&](const char* what, std::function<void(tape&, pass&)> forward) {
    add_segment(name + what, unit, layer, module_kind::feed_forward, std::move(forward));
  };
  add(".norm",
      [=, this](tape& tape, pass& p) { p.x = normalised(tape, config_, p.hidden, before); });
  add(".fc1", [=, this](tape& tape, pass& p) {
    p.x = linear(tape,
                 copy_to_tensor_region(tape, p.x),
                 product::column,
                 config_.fc1_width() / tensor_ranks(),
                 fc1.weight,
                 fc1.bias,
                 kernels::epilogue_of(config_.activation));
    if (config_.activation == kernels::activation::swiglu)
      p.x = activation(tape, p.x, config_.activation);
  });
  const bool together = tensor_ranks() == 1;
  add(".fc2", [=, this](tape& tape, pass& p) {
    p.x = linear(
        tape, p.x, product::row, config_.hidden, fc2.weight, together ? fc2.bias : no_parameter);
  });
  add_segment(name + ".residual",
              unit,
              layer,
              module_kind::other,
              [=, this, dropout = name + ".dropout"](tape& tape, pass& p) {
                p.hidden = residual(
                    tape, p, config_.hidden_dropout, dropout, together ? no_parameter : fc2.bias);
              });
}

void chunk::add_own_feed_forward(int unit, int64_t layer) {
  auto& home = units_[std::size_t(unit)];
  block_builder to(home.name + ".mlp",
                   layer,
                   config_,
                   seats_,
                   sequence_parallel_,
                   unit,
                   home.parameters,
                   program_);
  own_.feed_forward(to);
}

void chunk::add_head() {
  const auto& c = config_;
  const int unit = int(units_.size());
  unit_builder to(units_.emplace_back(unit_spec{"head", {}}), sequence_parallel_);
  const auto last_norm = add_norm(to, c, "decoder.final_layernorm", c.hidden, false);
  auto table = matrix("output_layer.weight", c.padded_vocabulary, c.hidden, c.init_std);
  table.valid_rows = c.vocabulary;
  table.placements[axis::tensor] = row_sharded();
  if (c.tied_embeddings)
    table.tied_to = "embedding.word_embeddings.weight";
  const int output = to.add(std::move(table));
  add_segment("head.norm", unit, -1, module_kind::other, [=, this](tape& tape, pass& p) {
    p.x = normalised(tape, config_, std::exchange(p.hidden, {}), last_norm);
  });
  add_segment("head", unit, -1, module_kind::other, [=, this](tape& tape, pass& p) {
    auto logits = linear(tape,
                         copy_to_tensor_region(tape, std::exchange(p.x, {})),
                         product::column,
                         config_.padded_vocabulary / tensor_ranks(),
                         output,
                         no_parameter);
    if (!p.labels) {
      p.logits = std::move(logits.data);
      return;
    }
    const auto scale = float(p.settings.loss_scale);
    p.loss
        = own_.loss
              ? own_.loss(tape, std::move(logits), p.labels, p.mask, config_.vocabulary, scale)
              : cross_entropy(tape, std::move(logits), p.labels, p.mask, config_.vocabulary, scale);
  });
}

std::vector<chunk_range> split_evenly(const gpt_config& config, int stages) {
  if (stages < 1 || config.layers % stages != 0)
    throw input_error(
        "`layout.pipeline` {} does not divide `model.layers` {}: each pipeline stage "
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
