// What a user's model does otherwise than a GPT: its own feed-forward block, its own loss.
//
// examples/03_own_layer.cpp is the story. An extension travels in a recipe, so that the reference
// trainer, a job of actors and a loaded model carry it out alike, in every layout that its
// operations know.

#pragma once

#include "runtime/autograd/ops.hpp"
#include "runtime/model/gpt_config.hpp"
#include "runtime/parameters/spec.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct pass;
struct segment;

/// A block of one layer, while a chunk is built. What is added belongs to the layer's unit.
class block_builder {
 public:
  block_builder(std::string name,
                std::int64_t layer,
                const gpt_config& config,
                const axis_seats& seats,
                bool sequence_parallel,
                int unit,
                std::vector<parameter_spec>& parameters,
                std::vector<segment>& program);

  const std::string& name() const { return name_; }  ///< "decoder.layers.3.mlp"
  std::int64_t layer() const { return layer_; }
  const gpt_config& config() const { return config_; }  ///< outlives the segments
  /// Ranks along an axis.
  int ranks(axis along) const { return seats_[along].size; }

  /// A parameter, called name() + "." + x.name; its index, for the operations. Throws input_error
  /// when the layer has one of that name.
  int add(parameter_spec x);

  /// What runs next. What talks to other tensor ranks stands first in a segment: another tape can
  /// run while ranks wait for each other. `forward` outlives the builder: it captures values.
  void segment(const std::string& name, std::function<void(tape&, pass&)> forward);

 private:
  std::string name_;
  std::int64_t layer_;
  const gpt_config& config_;
  axis_seats seats_;
  bool sequence_parallel_;
  int unit_;
  std::vector<parameter_spec>& parameters_;
  std::vector<runtime::segment>& program_;
};

struct extension {
  /// Part of a run's identity: a checkpoint is only loaded under the name that it was saved with.
  /// Change it when the function changes. Needed where anything else here is given.
  std::string name = {};

  /// In place of normalisation, feed-forward layer and residual: takes pass::hidden and leaves it.
  /// Null: the GPT's.
  std::function<void(block_builder&)> feed_forward = {};

  /// In place of cross_entropy, under its contract. Null: cross_entropy.
  std::function<decltype(cross_entropy)> loss = {};
};

}  // namespace troupe::runtime
