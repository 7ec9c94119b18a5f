// The computation of one rank: its chunks, its share of the optimizer, and the actions of a plan.
//
// A worker has no actors. The reference trainer drives one directly; a stage actor drives one
// through its lanes.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/core/error.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/model/expert_choice_settings.hpp"
#include "runtime/model/recompute.hpp"
#include "runtime/model/ties.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/parameters/buckets.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/parameters/watched_gradients.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/state/merged_digests.hpp"
#include "runtime/state/rank_estate.hpp"
#include "runtime/tensor/shard.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

struct hosted_chunk {
  chunk_id id = {};
  chunk_range range;
  /// Copy of the model. A further copy is a replica that shares its rank with a chunk of the first
  /// copy. Its gradients are summed as those of other replicas; the first copy accounts for both.
  copy_id copy = {};
};

struct worker_settings {
  model_spec model;
  std::vector<hosted_chunk> chunks;
  std::uint64_t seed = 1234;
  optimizer_settings optimizer;
  int replicas = 1;  ///< logical replicas that this worker hosts
  /// Gradients of experts in a resident_store.
  source_sums expert_sums = source_sums::by_source;
  dtype precision = dtype::f32;  ///< of parameters and activations
  bool per_token_loss = false;   ///< see recipe
  bool same_bits = true;         ///< deterministic passes; see pass_settings
  bool gathers_rows = false;     ///< of experts; see pass_settings
  double expert_load = 1;        ///< of a forecast; see pass_settings
  expert_choice_settings choices;
  recompute_settings recompute;
  bool sequence_parallel = false;
  bool distributed_optimizer = false;   ///< shards masters and moments over the data axis
  std::int64_t bucket_size = 40000000;  ///< elements
  std::int64_t grain = default_grain;   ///< elements; see buckets.hpp
  /// Creates the parameter store of a chunk. Null: a resident_store.
  std::function<std::unique_ptr<parameter_store>(std::vector<unit_spec> units,
                                                 int replicas,
                                                 memory_pool pool,
                                                 dtype type,
                                                 const axis_ranks& ranks)>
      store = {};
  /// State that outlives the worker. Null: none, and updates are in place.
  std::shared_ptr<rank_estate> estate = {};
  /// Updates keep the previous state, in an estate that the worker creates if it has none.
  bool keeps_previous = false;
  /// Other workers reduce the same gradients and compare digests: take fingerprints with the norms.
  bool compared = false;
  /// Other workers may verify passes, including what they add to gradients (verification.hpp).
  bool verifies = false;
  /// Layers that this rank saves; another rank saves the others (seats::counts).
  by_view<bool> saves = {true, true};
  /// Cancels a pass at its next segment: it throws `cancelled`, and the worker is unusable.
  cancel_token until = {};
};

/// Communicators by the axes along which their ranks differ; none is null.
using group_map = std::map<axis_set, communicator*>;

/// The communicators of a worker; they outlive the worker. Along an axis without one the worker is
/// alone. A worker with several replicas needs a data group, even of size one; for several sources
/// of experts it needs one of expert data.
struct worker_groups {
  group_map along = {};
  /// For models with several copies: groups of a chunk that replace the worker's. The data group
  /// contains all copies of the chunk.
  std::map<chunk_id, group_map> of_chunk = {};
  /// The group that adds the gradients of a tied parameter: each of its ranks has a use.
  struct tie_group {
    communicator* by = nullptr;
    std::vector<int> holders = {};  ///< the rank in `by` of each use, in model order
  };
  /// No entry: this rank has all uses, or none.
  std::map<tied_copy, tie_group> of_tie = {};
  /// For losses over replicas: this rank in all replicas. Used by passes only, so another one than
  /// that of sums, which run beside them. Null: one replica.
  communicator* replicas = nullptr;
  /// The same for a chunk with several copies, in training: the ranks of all its copies.
  std::map<chunk_id, communicator*> replicas_of_chunk = {};
  /// Number of the job's ranks along each axis (WORKER-13); 0: that of the group.
  coordinates extents = {};

  /// All groups of a chunk.
  group_map of(chunk_id c) const;
  /// The group in which a chunk counts rows in training.
  communicator* meeting(chunk_id c) const;
};

/// The settings of one step, equal on all ranks.
struct step_settings {
  step_id step = {};
  bool training = true;
  std::int64_t microbatches = 1;      ///< per logical replica
  std::int64_t logical_replicas = 1;  ///< of the whole job
  double loss_scale = 1;              ///< factor of the loss in the gradients
  bool counts_experts = false;        ///< for worker::expert_rows
};

/// One pass: a micro-batch of a hosted replica through a hosted chunk.
struct pass_key {
  int replica = 0;  ///< index among the hosted replicas
  chunk_id chunk = {};
  microbatch_id microbatch = {};

  friend auto operator<=>(const pass_key&, const pass_key&) = default;
};

/// A part of the state, named after its parameter: "<name>" for weights (masters, if any),
/// "exp_avg.<name>" or "momentum_buffer.<name>" for optimizer state (optimizer_settings.hpp). The
/// elements are in the memory of the worker's device.
using state_shard = tensor_shard<std::span<float>>;

/// Used by one lane and bound to its stream, except where a member allows other lanes. Virtual
/// members may be overridden, to inject faults or to leave out the tensor work.
class worker {
 public:
  /// With a blank estate, or one without a sealed state, the worker draws initial values as without
  /// an estate; the caller seals them. Otherwise the worker takes the newest state of the estate,
  /// and `bring_values` gathers the values of other ranks. Throws damaged_state if the bytes differ
  /// from the sealed ones. Throws input_error if a custom store cannot exchange its values (see
  /// parameter_store::value_array).
  worker(worker_settings settings, stream& stream, const worker_groups& groups = {});
  virtual ~worker() = default;

  const worker_settings& settings() const { return settings_; }

  /// Clears gradients and drops the passes of an abandoned step.
  virtual void begin_step(const step_settings& step);

  // The actions of a plan. See chunk_pass for the bundles and blocks. A chunk that exchanges
  // nothing computes I together with W, segment by segment, which needs less memory.
  /// In training breaks WORKER-15 if the losses that the pass writes are not those of its units.
  virtual bundle forward(const pass_key& key, const bundle& in);
  void recompute(const pass_key& key, int block);
  virtual bundle input_gradients(const pass_key& key, const bundle& in, int block = 0);
  virtual void weight_gradients(const pass_key& key, int block = 0);

  /// The whole backward pass: for each block, last first, R if it is recomputed, then I and W.
  bundle backward(const pass_key& key, const bundle& in);

  // Verification (verification.hpp). Changes no state of the worker.

  /// Runs weight_gradients and records the gradients before and after it. Breaks WORKER-12 unless
  /// the settings allow verification.
  virtual void weight_gradients(const pass_key& key, int block, added_gradients& to);
  /// Digest of the output of a pass, and of its loss if it has one.
  digest output_digest(const pass_key& key, const bundle& out);
  digest digest_of(const bundle& x);
  /// Copies the tensors, for use after a pass has overwritten its inputs.
  bundle copy_of(const bundle& x);
  /// Digests of a pass that is computed again: its output, its input gradient if it has one, and
  /// the gradients that it added to. `gradient`: of its output, if it has one. `to`: what the
  /// pass added to. The passes of a chunk come in the order of their micro-batches, one worker's
  /// after another's; some may be missing.
  struct again {
    digest output, input_gradient, weight_gradient;
    /// The pass adds to gradients of passes that were also computed again here. If one of those
    /// passes had another result, this pass has, too.
    bool continues = false;
  };
  again compute_again(chunk_id id, const bundle& in, const bundle& gradient, added_gradients to);
  /// Frees the gradient memory of passes that are computed again.
  void end_computing_again() { replayed_ = {}; }
  /// True if passes of the chunk send an input gradient.
  bool gives_gradient(chunk_id id) const {
    return !homes_.at(id)->model.flow().before.streams.empty();
  }
  /// Fault injection: flips a bit of the output of a pass, or of its loss.
  void flip_output_bit(const pass_key& key, bundle& out);
  /// Fault injection: flips a bit of a gradient that the next recorded W adds to.
  void flip_added_bit(chunk_id id);

  /// Nanoseconds in which passes of the chunk, and of chunks with the same groups, have waited for
  /// other ranks in collectives: see communicator.
  std::uint64_t waited_ns(chunk_id id) const;
  /// The blocks of a chunk's backward pass; nonzero: recomputed.
  std::vector<char> blocks(chunk_id id) const;

  // Results of a step are requested together and read with one wait: `to` is valid when the reads
  // finish. The overloads without `reads` wait at once.

  /// The losses of the hosted chunks, in the order of loss_part. Each part is a sum in the order of
  /// the micro-batches. A part's number counts the hosted replicas, then those of further copies.
  virtual void losses(reads& by, std::vector<loss_part>& to) const;
  std::vector<loss_part> losses() const;
  /// The model's first loss for one replica, of the first copy.
  loss_value loss(int replica) const;

  /// Choices of the routers in this step's forward passes, by unit. Passes that are computed again,
  /// here or for other workers, are left out. Each tensor rank has its own rows.
  const std::vector<runtime::expert_rows>& expert_rows() const { return expert_rows_; }

  /// Gradients are summed over all logical replicas bucket by bucket. Calls `then` within
  /// weight_gradients as soon as a bucket is complete.
  void on_complete(std::function<void(int bucket)> then) { complete_ = std::move(then); }
  int buckets() const { return int(buckets_.size()); }
  /// Thread-safe for other lanes, while the worker's own lane does not touch this bucket. Call it
  /// once per step and bucket, in the same order on all ranks of the data axis. The sum replaces
  /// the gradients of the first replica; with a distributed optimizer only this rank's share.
  virtual void reduce_bucket(int bucket, stream& stream);

  /// Call it after all buckets: sums partial gradients of tensor ranks, and the uses of tied
  /// parameters in model order (WORKER-14).
  virtual void finish_reduction();

  /// Reduces all buckets, then calls finish_reduction.
  virtual void reduce();

  /// Norms of the reduced gradients for which this rank accounts. Gradients that are final earlier
  /// were read then: at the unit's last micro-batch, or with the sum of their bucket.
  virtual void norms(reads& by, square_norms& to) const;
  square_norms norms() const;
  /// The first parameter, in the order of the backward pass, with a non-finite gradient by these
  /// norms.
  struct finding {
    std::string name = {};  ///< empty: there is none
    int chunk = -1;         ///< of the model; -1: none
    int entry = -1;         ///< index among the parameters of the chunk
  };
  finding first_nonfinite(const square_norms& norms) const;
  /// Counts zeros in the reduced gradients for which this rank accounts.
  void zero_gradients(reads& by, by_view<std::int64_t>& to) const;
  /// Over the weights for which this rank accounts; over their masters if they have any.
  void square_norm_of_parameters(reads& by, by_view<exact_sum>& to) const;

  /// Writes NaN into a gradient for which this rank accounts. Call it after begin_step; for fault
  /// injection.
  void inject_nan_gradient();

  /// Flips a bit of a reduced gradient for which this rank accounts, or of an updated state; for
  /// fault injection. `key` selects parameter and element. Throws input_error if this rank has
  /// none.
  void flip_gradient_bit(std::uint64_t key);
  void flip_state_bit(state_array which, std::uint64_t key);

  /// True if the rank has parameters of experts.
  bool has_experts() const { return !of_experts_.empty(); }
  /// The layers of a parameter that this rank has.
  axis_view layers_of(const std::string& parameter) const {
    return of_experts_.contains(parameter) ? axis_view::experts : axis_view::dense;
  }

  /// Digests of what ranks must have in common: all reduced gradients. With a distributed
  /// optimizer: the gathered values that the step used, since each rank has only a share of the
  /// gradients. Breaks STORE-7 if values are dropped (value_arrays); such workers do not vote.
  void vote_digests(reads& by, by_view<digest>& to) const;
  by_view<digest> vote_digests() const;
  /// Combines norms and vote_digests; reads the gradients once.
  virtual void norms_and_digests(reads& by, square_norms& norms, by_view<digest>& to) const;

  /// With a distributed optimizer the values of other ranks are stale until `gather`.
  ///
  /// If values are rounded from masters and no other rank adds to the gradients, a unit's values
  /// exist only from the update to the last pass that reads them. Its gradients then reuse their
  /// memory until drop_gradients. This does not apply with an estate, with verified passes, or to
  /// custom stores that keep values.
  ///
  /// With an estate the new state is written beside the previous one, which stays valid until the
  /// next update begins. Until `seal` the estate holds only the previous state, even if this
  /// throws; then the worker is unusable, and another one resumes from the estate.
  virtual void update(const update_decision& decision);
  /// The gradients of this step are no longer needed: it was applied or skipped. Frees their memory
  /// if it is temporary. Memory of an abandoned step is freed when the next step begins.
  void drop_gradients();
  /// Writes the choices of this step's forward passes to the folder of the settings, if there is
  /// one: see choice_writer. Call it when the step is decided, also if it is skipped; a step that
  /// runs again writes the same. Passes that are computed again are left out. Until then the
  /// choices stay in host memory: 2 bytes each.
  void record_choices();
  virtual void digests(reads& by, state_digests& to) const;
  state_digests digests() const;

  // The following need an estate; otherwise they break WORKER-10.

  /// Marks the current state (the initial one, or the result of `update`) as that of this
  /// iteration. `digests` must be those of this state.
  void seal(std::uint64_t iteration, const state_digests& digests);
  /// Marks the iteration as skipped: its state is the previous one.
  virtual void skip(std::uint64_t iteration);
  /// Gathers the values that other ranks own, with a distributed optimizer. Call it on all ranks of
  /// the data axis, after construction from estates and before the first pass.
  void bring_values();
  /// Null: no estate.
  const std::shared_ptr<rank_estate>& estate() const { return settings_.estate; }

  /// Makes units wait for their values until gather_bucket gathers them or the token is cancelled.
  void close_parameter_gates(const cancel_token& token);
  /// Gathers the values of a bucket from the ranks that own them, unless they are frozen. Any lane;
  /// in gather_order.
  void gather_bucket(int bucket, stream& stream);
  /// The order of the next forward passes: chunks ascending, and for each chunk the last bucket
  /// first.
  std::vector<int> gather_order() const;
  /// Gathers all buckets.
  void gather();

  /// The share of this rank in a checkpoint; over all ranks each element occurs once. The spans
  /// are valid until the next update.
  virtual std::vector<state_shard> parameters();
  std::vector<state_shard> moments();

  /// Fills values, masters and, if requested, moments. `read` fills the elements of a shard, in
  /// host memory. The estate then holds no state until `seal`.
  using reader = std::function<void(const state_shard& to)>;
  void restore(const reader& read, bool with_moments);

  /// A contiguous array of values, or of one part of the gradients.
  struct held_array {
    std::int64_t elements = 0;  ///< of the store's type; includes padding and alignment
    /// True: allocated from step to step. False: values until their last backward pass, gradients
    /// from then until they are dropped.
    bool stays = true;
  };
  std::vector<held_array> value_arrays() const;
  std::vector<held_array> gradient_arrays() const;
  /// Size of the gradients of a chunk for one logical replica.
  std::int64_t gradient_elements(chunk_id id) const;

  /// Parameters for which this rank accounts, also if other replicas have them.
  std::int64_t parameter_count() const;

 private:
  struct hosted {
    hosted(const worker_settings& settings,
           const hosted_chunk& which,
           stream& stream,
           const worker_groups& groups,
           const state_arrays* from,
           bool draws);

    /// True if sums, norms and digests of this rank include the chunk.
    bool answers() const { return copy == copy_id(0) || state_sharded; }
    axis_view layers_of(int entry) const {
      return store->entries()[std::size_t(entry)].spec.placements.view();
    }
    /// WORKER-13, BUCKET-1
    void check_sums(const coordinates& extents) const;
    /// The group for the sum of a bucket; null: none.
    communicator* group_of(const bucket& x) const { return group_of(x.along); }
    communicator* group_of(axis_set sum) const;
    /// Ranks that share the state of a bucket, and this rank among them.
    int sharers(axis_set sum) const;
    int share(axis_set sum) const;

    /// True if values are dropped after the last pass of a step that reads them.
    bool drops_values() const { return !store->keeps_values(); }

    /// The groups over which the optimizer assembles matrices.
    optimizer_groups groups_of_optimizer() const;

    /// True if the sum over replicas changes the bucket.
    bool is_summed(const bucket& x) const;
    /// The gradients that are not final after that sum.
    gradient_prospects prospects() const;
    /// Reads entries [first, end) after their sum.
    void take_gradients(stream& by, int first, int end);

    copy_id copy;
    group_map all_groups;
    axis_map<communicator*> groups;  ///< along one axis; null: alone
    bool state_sharded;              ///< optimizer state is sharded over replicas
    bool compared;                   ///< gradients are compared with those of other workers
    chunk model;
    std::set<std::pair<std::int64_t, std::string>> losses;  ///< (unit, name) that a pass writes
    recompute_plan plan;
    std::unique_ptr<parameter_store> store;
    std::unique_ptr<witnessed_gradients> witness;  ///< wraps that store; null: no verification
    std::vector<bucket> buckets;
    std::vector<entry_range> owned;
    optimizer_state optimizer;
    runtime::step_counts step_counts, counts_of_evaluation;
    /// For each unit: passes of this step that no longer read its values.
    std::vector<std::int64_t> done_reading;
  };

  /// A bucket of one of the chunks.
  struct chunk_bucket {
    hosted* home;
    std::size_t at;
    /// Marks when it is complete or summed, for another stream that reads it next.
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
  /// Micro-batches of a step that contribute to the gradients of a unit.
  std::int64_t microbatches() const { return step_.microbatches * settings_.replicas; }
  /// True if the estate holds a state to resume from.
  bool enter_estate();
  /// Arrays of the newest slot; null: the chunk gets new arrays.
  const state_arrays* found_of(chunk_id id) const;
  /// Called after all chunks exist: gives a blank estate its arrays, or checks the state that it
  /// holds.
  void settle_estate(bool begins);
  void check_digests() const;
  void emitted(hosted& home, int unit);
  void read_votes(reads& by, square_norms* norms, by_view<digest>* of_gradients) const;
  void read_values(reads& by, by_view<digest>& to) const;
  bool is_whole(chunk_id id) const;
  void sum_bucket(const chunk_bucket& which, stream& stream);
  void gather_bucket(int bucket, stream& stream, bool with_frozen);
  /// True if an update moves all values, also frozen ones, to another array.
  bool keeps_frozen_beside() const {
    return settings_.estate != nullptr && settings_.precision == dtype::f32;
  }
  void add_partial_gradients(hosted& home, axis along);
  struct tie_use {
    hosted* home;
    entry_range range;
  };
  void add_ties(const tie& which, copy_id copy);
  void spread(const std::vector<tie_use>& here, const float* sum);
  void add_distant_ties(const std::vector<tie_use>& here, const worker_groups::tie_group& by);
  /// The weights of a part; frozen ones are widened.
  std::span<float> f32_weights(hosted& home, const optimizer_state::part& x);
  void append(std::vector<state_shard>& to,
              hosted& home,
              const optimizer_state::part& x,
              const std::string& name,
              std::span<float> all) const;

  worker_settings settings_;
  stream& stream_;
  worker_groups groups_;
  step_settings step_;
  std::shared_ptr<void> stay_;  ///< leaves the estate after the chunks are destroyed
  /// The estate's arrays, for use on this stream; slots_[current_] has the state.
  std::array<rank_estate::chunks, 2> slots_;
  std::size_t current_ = 0;
  std::map<chunk_id, std::unique_ptr<hosted>> homes_;
  std::vector<tie> ties_;             ///< of the model
  std::set<std::string> of_experts_;  ///< parameters of experts, by the name of their owner
  std::vector<chunk_bucket> buckets_;
  std::vector<tensor> widened_;  ///< frozen values in f32, for parameters()
  tensor vote_keys_;             ///< keys of the fingerprints of voted values, one per grain
  std::function<void(int)> complete_;
  std::shared_ptr<device_event> updated_;
  std::map<pass_key, std::unique_ptr<chunk_pass>> passes_;
  /// The chunk of the passes that are computed again.
  std::pair<chunk_id, std::unique_ptr<replayed_gradients>> replayed_;
  std::vector<loss_spec> loss_names_;  ///< of the model
  std::map<pass_key, pass_losses> losses_;
  std::vector<runtime::expert_rows> expert_rows_;
  std::optional<choice_writer> recorder_;
  std::optional<choice_reader> replayed_choices_;
  std::vector<recorded_choice> choices_;  ///< of the step, until they are written
};

}  // namespace troupe::runtime
