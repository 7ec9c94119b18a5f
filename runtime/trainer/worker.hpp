// The arithmetic of one rank: its chunks, its share of the optimizer, the actions of a plan.
//
// A worker knows nothing of actors. The reference trainer drives one; a stage actor drives one
// through its lanes.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/core/error.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/model/recompute.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/parameters/buckets.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/parameters/watched_gradients.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/tensor/shard.hpp"
#include "runtime/trainer/rank_estate.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

struct hosted_chunk {
  chunk_id id = {};
  chunk_range range;
  /// Of the model. Another than the first is a replica like any other, which shares its rank with a
  /// chunk of the first: it is summed with the others, and the first answers for both.
  copy_id copy = {};
};

struct worker_settings {
  model_spec model;
  std::vector<hosted_chunk> chunks;
  std::uint64_t seed = 1234;
  optimizer_settings optimizer;
  int replicas = 1;              ///< logical replicas that this worker hosts
  dtype precision = dtype::f32;  ///< of values and activations
  bool per_token_loss = false;   ///< see recipe
  bool same_bits = true;         ///< of passes, see pass_settings
  recompute_settings recompute;
  bool sequence_parallel = false;
  bool distributed_optimizer = false;   ///< masters and moments are sharded over the data axis
  std::int64_t bucket_size = 40000000;  ///< elements
  std::int64_t grain = default_grain;   ///< elements; see buckets.hpp
  /// Makes the store of a chunk. Null: a resident_store.
  std::function<std::unique_ptr<parameter_store>(std::vector<unit_spec> units,
                                                 int replicas,
                                                 memory_pool pool,
                                                 dtype type,
                                                 const axis_ranks& ranks)>
      store = {};
  /// What outlives the worker. Null: nothing does, and updates are in place.
  std::shared_ptr<rank_estate> estate = {};
  /// Updates leave the state before as it was: in an estate of the worker's own where it is given
  /// none.
  bool keeps_previous = false;
  /// Other workers reduce the same gradients, and their digests are compared: fingerprints are
  /// taken with the norms.
  bool compared = false;
  /// Passes may be looked at by others (verification.hpp), what they add to gradients included.
  bool verifies = false;
  /// Ends a pass at its next segment: it throws `cancelled`, and the worker is of no use any more.
  cancel_token until = {};
};

/// The groups that a worker belongs to, one along each axis; they outlive it. Null: it is alone
/// there. A worker that hosts several replicas has a data group, be it of one. Its group along the
/// pipeline axis is of the stages that hold the ends of a tied parameter: first, last.
struct worker_groups {
  axis_map<communicator*> along = {};
  /// Where the model has several copies: those of a chunk in place of the worker's. Its data group
  /// is of all copies of the chunk.
  std::map<chunk_id, axis_map<communicator*>> of_chunk = {};

  /// What a chunk has along every axis.
  axis_map<communicator*> of(chunk_id c) const;
};

/// What one step is told to everybody.
struct step_settings {
  step_id step = {};
  bool training = true;
  std::int64_t microbatches = 1;      ///< of each logical replica
  std::int64_t logical_replicas = 1;  ///< of the whole job
  double loss_scale = 1;              ///< gradients are of so much times the mean loss
};

/// Which pass: a micro-batch of one of the hosted replicas on one of the hosted chunks.
struct pass_key {
  int replica = 0;  ///< counts the hosted ones
  chunk_id chunk = {};
  microbatch_id microbatch = {};

  friend auto operator<=>(const pass_key&, const pass_key&) = default;
};

/// Of the state of a worker: weights (masters, if any) by their names, what the rule of each keeps
/// as "exp_avg.<name>", "momentum_buffer.<name>" (optimizer_settings.hpp). The elements lie where
/// the worker computes.
using state_shard = tensor_shard<std::span<float>>;

/// STEP-6, within one rank: two of its copies of a parameter are not alike.
class copies_differ : public broken_promise {
 public:
  explicit copies_differ(std::string parameter);
  const std::string& parameter() const { return parameter_; }

 private:
  std::string parameter_;
};

/// Adds the digests of one chunk to those of its rank, which answers for it or not. Throws
/// copies_differ.
void merge_digests(state_digests& to, state_digests of_chunk, bool answers);

/// Used by one lane, and bound to its stream; what other lanes may call says so.
class worker {
 public:
  /// With an estate that is blank, or where nothing was sealed, the worker begins as without one:
  /// it draws its values, and its owner seals what it begins with. Else its state is the newest of
  /// the estate, and nothing is drawn: `bring_values` fetches what other ranks own. Throws
  /// damaged_state when the bytes are no longer those that were sealed; input_error when a store of
  /// the settings cannot exchange its values (see parameter_store::value_array).
  worker(worker_settings settings, stream& stream, const worker_groups& groups = {});

  const worker_settings& settings() const { return settings_; }

  /// Gradients become zero; passes of an abandoned step are dropped.
  void begin_step(const step_settings& step);

  // The actions. See chunk_pass for the bundles and blocks. Nobody waits for the I of a chunk that
  // has embedding and head: it is done with its W, segment by segment, which holds less memory.
  bundle forward(const pass_key& key, const bundle& in);
  void recompute(const pass_key& key, int block);
  bundle input_gradients(const pass_key& key, const bundle& in, int block = 0);
  void weight_gradients(const pass_key& key, int block = 0);

  /// All of the backward pass: for each block, the last first, R where it is recomputed, I, W.
  bundle backward(const pass_key& key, const bundle& in);

  // Verification (verification.hpp): nothing of the worker is changed by it.

  /// W of which is taken down what it adds to, and what comes of it; else as weight_gradients.
  /// Broken promise WORKER-12 unless the settings say that passes are verified.
  void weight_gradients(const pass_key& key, int block, added_gradients& to);
  /// What a pass has handed on, and on the head its loss.
  digest output_digest(const pass_key& key, const bundle& out);
  digest digest_of(const bundle& x);
  /// Tensors of their own, for who reads them when a pass has used up those that it was given.
  bundle copy_of(const bundle& x);
  /// The same of a pass that is computed again, and of its input gradient, where it has one, and
  /// of the gradients that it has added to. `gradient`: of what it hands on; empty on the head.
  /// `to`: what the pass added to; passes of a chunk come in the order of their micro-batches, of
  /// one worker after those of another, or not at all.
  struct again {
    digest output, input_gradient, weight_gradient;
    /// What it added to, others had added to before, who were computed again here: where those came
    /// out otherwise, this one does.
    bool continues = false;
  };
  again compute_again(chunk_id id, const bundle& in, const bundle& gradient, added_gradients to);
  /// The memory for gradients of passes that are computed again is given back.
  void end_computing_again() { replayed_ = {}; }
  /// Whether a pass of the chunk has an input gradient for somebody.
  bool gives_gradient(chunk_id id) const { return !homes_.at(id)->model.range().embedding; }
  /// Flips a bit of what a pass hands on, or on the head of its loss: to show what follows.
  void flip_output_bit(const pass_key& key, bundle& out);
  /// The same of a gradient that the next W adds to that is taken down.
  void flip_added_bit(chunk_id id);

  /// The blocks of a chunk's backward pass: whether each is recomputed.
  std::vector<char> blocks(chunk_id id) const;

  // What a step leaves is asked for all at once and waited for once: `to` has it when the reads
  // finish. The forms without reads wait at once.

  /// Losses of this step's micro-batches on the head, added in the order of the micro-batches; of
  /// one hosted replica.
  void loss(reads& by, int replica, loss_value& to) const;
  loss_value loss(int replica) const;

  /// Gradients are summed over all logical replicas a bucket at a time, each as soon as it is
  /// complete: `then` is called with its number, within weight_gradients.
  void on_complete(std::function<void(int bucket)> then) { complete_ = std::move(then); }
  int buckets() const { return int(buckets_.size()); }
  /// Any lane, while the worker's own does not touch this bucket; once a step for each, in one
  /// order on all ranks of the data axis. The sum is where the first replica's gradients were: with
  /// a distributed optimizer this rank's share of it.
  void reduce_bucket(int bucket, stream& stream);

  /// When every bucket is reduced: adds up what tensor ranks hold parts of, and the uses of tied
  /// parameters: embedding + head.
  void finish_reduction();

  /// Every bucket, then finish_reduction.
  void reduce();

  /// Of the reduced gradients, as far as this rank answers for them. What is final before the end
  /// was taken then: at the unit's last micro-batch, or with the sum of its bucket.
  void norms(reads& by, square_norms& to) const;
  square_norms norms() const;
  /// The parameter whose gradient is not finite, by these norms, that the backward pass came to
  /// first.
  struct finding {
    std::string name = {};  ///< empty: there is none
    int chunk = -1;         ///< of the model
    int entry = -1;         ///< counts the parameters of the chunk
  };
  finding first_nonfinite(const square_norms& norms) const;
  /// Of the reduced gradients, as far as this rank answers for them: those that are zero.
  void zero_gradients(reads& by, std::int64_t& to) const;
  /// Of the weights, as far as this rank answers for them; with master weights of those.
  void square_norm_of_parameters(reads& by, exact_sum& to) const;

  /// Puts NaN into a gradient that this rank answers for: after begin_step, to show what follows.
  void inject_nan_gradient();

  /// Flips a bit of a reduced gradient that this rank answers for, or of what was updated: to show
  /// what follows. `key` chooses parameter and element. Throws input_error: this rank has none.
  void flip_gradient_bit(std::uint64_t key);
  void flip_state_bit(state_array which, std::uint64_t key);

  /// What replicas must have alike: all reduced gradients. With a distributed optimizer nobody has
  /// all of those, and it is of the values with which the step was computed: what was gathered.
  /// Broken promise STORE-7 where those are dropped (value_arrays), which nobody votes with.
  void vote_digest(reads& by, digest& to) const;
  digest vote_digest() const;
  /// The same as norms and vote_digest; gradients are read once for both.
  void norms_and_digest(reads& by, square_norms& norms, digest& to) const;

  /// With a distributed optimizer the values of other ranks are old until `gather`. Where values
  /// are rounded from masters, and gradients are summed with nobody's, those of a unit are there
  /// from the update to the last pass that reads them: its gradients take their place, and
  /// leave it to them (drop_gradients too, for a step that is left out). Not with an estate, not of
  /// passes that are verified, and not in a store of the settings that keeps them.
  ///
  /// With an estate the new state is written beside the one before, which stays as it was until the
  /// next update begins. Until `seal` the estate holds only the one before, also where this throws:
  /// then the worker is of no more use, and another goes on from the estate.
  void update(const update_decision& decision);
  /// Nobody reads the gradients of this step any more: it was applied, or is left out. Where their
  /// memory comes and goes it goes now; of a step that was abandoned it goes when the next begins.
  void drop_gradients();
  void digests(reads& by, state_digests& to) const;
  state_digests digests() const;

  // With an estate. Elsewhere these are broken promises (WORKER-10).

  /// The state is that of this iteration, of which `digests` were read: what the worker has begun
  /// with, or what `update` has left.
  void seal(std::uint64_t iteration, const state_digests& digests);
  /// The iteration is left out: its state is the one before.
  void skip(std::uint64_t iteration);
  /// All ranks of the data axis, after they were built from estates and before the first pass: with
  /// a distributed optimizer each gets the values that others own.
  void bring_values() { gather(); }
  /// Null: none.
  const std::shared_ptr<rank_estate>& estate() const { return settings_.estate; }

  /// From now on units wait for their values, until gather_bucket brings them or the token is
  /// cancelled.
  void close_parameter_gates(const cancel_token& token);
  /// Brings the values of a bucket from the ranks that own them. Any lane; in gather_order.
  void gather_bucket(int bucket, stream& stream);
  /// As the next forward passes want them: chunks ascending, of each the last bucket first.
  std::vector<int> gather_order() const;
  /// All of them.
  void gather();

  /// What this rank adds to a checkpoint: over all ranks that are asked, each element once. The
  /// spans are valid until the next update.
  std::vector<state_shard> parameters();
  std::vector<state_shard> moments();

  /// Fills values and masters, and moments where wanted: `read` fills the elements of each shard
  /// that this rank has, which lie on the host. An estate holds nothing then, until `seal`.
  using reader = std::function<void(const state_shard& to)>;
  void restore(const reader& read, bool with_moments);

  /// Values, or gradients of one logical replica, that lie together.
  struct held_array {
    std::int64_t elements = 0;  ///< padding and alignment included
    /// From step to step. Else values until their last backward pass, gradients from then on until
    /// they are dropped.
    bool stays = true;
  };
  std::vector<held_array> value_arrays() const;
  std::vector<held_array> gradient_arrays() const;
  /// Those of a chunk's gradients.
  std::int64_t gradient_elements(chunk_id id) const;

  /// Parameters that this rank answers for: over all ranks of a replica those of the model.
  std::int64_t parameter_count() const;

 private:
  struct hosted {
    hosted(const worker_settings& settings,
           const hosted_chunk& which,
           stream& stream,
           const worker_groups& groups,
           const state_arrays* from,
           bool draws);

    /// Whether the sums, norms and digests of this rank are to count what it holds of the chunk.
    bool answers() const { return copy == copy_id(0) || state_sharded; }
    /// The group over whose replicas a bucket is summed; null: none.
    communicator* group_of(const bucket& x) const { return x.along ? groups[*x.along] : nullptr; }

    /// When the last pass of a step has read them.
    bool drops_values() const { return !store->keeps_values(); }

    /// With whom the optimizer puts matrices together.
    optimizer_groups groups_of_optimizer() const;

    /// Whether the sum over replicas changes a bucket.
    bool is_summed(const bucket& x) const;
    /// What of its gradients is not final with that sum.
    gradient_prospects prospects() const;
    /// Entries [first, end) have been summed.
    void take_gradients(stream& by, int first, int end);

    copy_id copy;
    axis_map<communicator*> groups;
    bool state_sharded;  ///< the optimizer's, over the data axis
    bool compared;       ///< its gradients, with those of other workers
    chunk model;
    recompute_plan plan;
    std::unique_ptr<parameter_store> store;
    std::unique_ptr<witnessed_gradients> witness;  ///< of that store; null: nothing is verified
    std::vector<bucket> buckets;
    std::vector<entry_range> owned;
    optimizer_state optimizer;
    /// Of each unit, in this step: passes that read its values no more.
    std::vector<std::int64_t> done_reading;
  };

  /// A bucket of one of the chunks.
  struct chunk_bucket {
    hosted* home;
    std::size_t at;
    /// Complete, or summed: for the stream that reads it next, where that is another.
    std::shared_ptr<device_event> point = {};

    const bucket& stretch() const { return home->buckets[at]; }
  };

  template <class T, class What>
  T read(const What& what) const {
    T out;
    reads by(stream_);
    what(by, out);
    by.finish();
    return out;
  }
  hosted& at(chunk_id id);
  std::unique_ptr<chunk_pass> new_pass(hosted& home, parameter_store& store);
  replayed_gradients& replayed(chunk_id id);
  void add_gradients(const pass_key& key, int block, added_gradients* to);
  chunk_pass& pass(const pass_key& key, const char* otherwise);
  /// Micro-batches of a step that a unit is emitted for.
  std::int64_t microbatches() const { return step_.microbatches * settings_.replicas; }
  /// Whether it holds a state to go on from; false where there is no estate, too.
  bool enter_estate();
  /// Of the newest slot; null: the chunk gets new arrays.
  const state_arrays* found_of(chunk_id id) const;
  /// When every chunk is there: gives a blank estate its arrays, or checks what was found.
  void settle_estate(bool begins);
  void check_digests() const;
  void emitted(hosted& home, int unit);
  void read_votes(reads& by, square_norms* norms, digest* of_gradients) const;
  void read_values(reads& by, digest& to) const;
  bool is_whole(chunk_id id) const;
  void sum_bucket(const chunk_bucket& which, stream& stream);
  void add_partial_gradients(hosted& home, axis along);
  void add_ties();
  void add_ties_between_chunks();
  void append(std::vector<state_shard>& to,
              hosted& home,
              const optimizer_state::part& x,
              const std::string& name,
              std::span<float> all) const;

  worker_settings settings_;
  stream& stream_;
  worker_groups groups_;
  step_settings step_;
  std::shared_ptr<void> stay_;  ///< in the estate, which is left after the chunks are gone
  /// The estate's, for the use of this stream. The current one has the state.
  std::array<rank_estate::chunks, 2> slots_;
  std::size_t current_ = 0;
  std::map<chunk_id, std::unique_ptr<hosted>> homes_;
  std::vector<chunk_bucket> buckets_;
  tensor vote_keys_;  ///< of the fingerprints of values that are voted: of each grain
  std::function<void(int)> complete_;
  std::shared_ptr<device_event> updated_;
  std::map<pass_key, std::unique_ptr<chunk_pass>> passes_;
  /// Of the chunk whose passes are computed again.
  std::pair<chunk_id, std::unique_ptr<replayed_gradients>> replayed_;
  std::map<pass_key, tensor> losses_;  ///< see loss_value
};

}  // namespace troupe::runtime
