// The arithmetic of one rank: its chunks, its share of the optimizer, the actions of a plan.
//
// A worker knows nothing of actors. The reference trainer drives one; a stage actor drives one
// through its lane.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/optim/adamw.hpp"
#include "runtime/schedule/plan.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

struct hosted_chunk {
  chunk_id id = {};
  chunk_range range;
};

struct worker_settings {
  gpt_config model;
  std::vector<hosted_chunk> chunks;
  std::uint64_t seed = 1234;
  adamw_settings optimizer;
  int replicas = 1;  ///< logical replicas that this worker hosts
};

/// What one step is told to everybody.
struct step_settings {
  step_id step = {};
  bool training = true;
  std::int64_t microbatches = 1;      ///< of each logical replica
  std::int64_t logical_replicas = 1;  ///< of the whole job
};

/// Which pass: a micro-batch of one of the hosted replicas on one of the hosted chunks.
struct pass_key {
  int replica = 0;  ///< counts the hosted ones
  chunk_id chunk = {};
  microbatch_id microbatch = {};

  friend auto operator<=>(const pass_key&, const pass_key&) = default;
};

/// A named array of a checkpoint: parameters by their names, moments as "exp_avg.<name>" and
/// "exp_avg_sq.<name>". Padding rows are not part of it.
struct named_array {
  std::string name;
  shape extents;
  std::span<float> elements;
};

/// Used by one lane, and bound to its stream.
class worker {
 public:
  worker(worker_settings settings, stream& on);

  const worker_settings& settings() const { return settings_; }

  /// Gradients become zero; passes of an abandoned step are dropped.
  void begin_step(const step_settings& step);

  // The actions. See chunk_pass for the bundles.
  bundle forward(const pass_key& key, const bundle& in);
  bundle input_gradients(const pass_key& key, const bundle& in);
  void weight_gradients(const pass_key& key);

  /// Losses of this step's micro-batches on the head, added in the order of the micro-batches; of
  /// one hosted replica.
  loss_value loss(int replica) const;

  /// Sums gradients over all logical replicas, then adds those of tied parameters: embedding +
  /// head. `ties` joins the two stages that hold a tied parameter; null when one worker holds both.
  void reduce(communicator& data, communicator* ties);

  /// Of the reduced gradients.
  square_norms norms();
  digest gradient_digest();

  void update(const update_decision& decision);
  std::map<std::string, digest> digests() const;

  /// Everything that a checkpoint of this worker holds. The spans are valid until the next update.
  std::vector<named_array> parameters();
  std::vector<named_array> moments();

  /// Fills parameters, and moments where wanted, from wherever `read` finds them by name.
  using reader = std::function<void(const std::string& name, const shape&, std::span<float>)>;
  void restore(const reader& read, bool with_moments);

  std::int64_t parameter_count() const;

 private:
  struct hosted {
    hosted(const worker_settings& settings, const hosted_chunk& which, stream& on);

    chunk model;
    resident_store store;
    adamw optimizer;
  };

  hosted& at(chunk_id id);
  void add_ties_between_chunks();

  worker_settings settings_;
  stream& stream_;
  step_settings step_;
  std::map<chunk_id, std::unique_ptr<hosted>> homes_;
  std::map<pass_key, std::unique_ptr<chunk_pass>> passes_;
  std::map<pass_key, loss_value> losses_;
};

}  // namespace troupe::runtime
