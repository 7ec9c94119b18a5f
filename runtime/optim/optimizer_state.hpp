// The optimizer of a parameter store. The update is a pure function of (state n - 1, reduced
// gradients n, step n). optimizer_settings.hpp chooses the rule and the state of each parameter.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/optim/digested_part.hpp"
#include "runtime/optim/gradient_norms.hpp"
#include "runtime/optim/optimizer_settings.hpp"
#include "runtime/parameters/buckets.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tensor/reads.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::kernels {

struct written_fingerprints;

}  // namespace troupe::kernels

namespace troupe::runtime {

/// Global decision that precedes the update on all ranks.
struct update_decision {
  std::uint64_t step = 0;  ///< counts updates: 1 is the first
  double learning_rate = 0;
  double gradient_scale = 1;  ///< clipping times inverse loss scale
  /// Rate of the word embedding and the output layer; empty: learning_rate.
  std::optional<double> decoupled_learning_rate = {};
  std::optional<double> weight_decay = {};  ///< nothing: the value in the settings

  friend bool operator==(const update_decision&, const update_decision&) = default;
};

/// Returns min(1, clip / (norm + 1e-6)), as Megatron-LM clips.
double clip_coefficient(double norm, double clip);

/// Digests of the state of a rank's chunk by parameter: f32 weights (masters, if any) and the
/// rule's state. Digests of parts can be added.
struct chunk_digests {
  std::map<std::string, digest> own;
  /// Digests of what another rank reports: tied copies of another stage, and parameters that are
  /// replicated over tensor ranks. They must equal the owner's.
  std::map<std::string, digest> copies;

  friend bool operator==(const chunk_digests&, const chunk_digests&) = default;
};

/// Arrays of a state. The momentum of sgd and muon is a first moment.
enum class state_array : std::uint8_t { weights, first_moment, second_moment };

/// Groups with which a rank gathers whole matrices, for muon. Null: the rank has whole matrices.
struct optimizer_groups {
  axis_map<communicator*> along = {};  ///< read at axis_of_matrices
  /// Owners of an entry: the replicas that own ranges of it, and the end of each range in elements
  /// of the entry. Empty: this replica owns the whole entry.
  struct owners {
    communicator* group = nullptr;
    std::vector<std::int64_t> ends = {};
  };
  std::vector<owners> of_entry = {};
};

/// The arrays of a state. They can be kept and exchanged for arrays of the same sizes. On a device
/// each has its own allocation (memory_pool::allocate_apart), because a rank's estate may outlive
/// the user of the pool.
struct state_arrays {
  /// f32 master weights; if values are f32, all values of the store (parameter_store::value_array).
  tensor weights = {};
  tensor kept = {};  ///< f32 state of the rules, of all parts
};

/// Optimizer state, master weights (if values are rounded) and update of the ranges that this rank
/// owns. Used by one lane.
class optimizer_state {
 public:
  /// `keeps_frozen`: the arrays of the state also hold frozen values, for use without the store.
  /// The state and the masters are zero until `set_weights`. Or they are taken from `from`, the
  /// arrays of an equal rank; if values are f32, the store already has its weights.
  optimizer_state(parameter_store& store,
                  const optimizer_settings& settings,
                  std::vector<entry_range> owned,
                  memory_pool pool,
                  std::int64_t grain = default_grain,
                  optimizer_groups groups = {},
                  const state_arrays& from = {},
                  const gradient_prospects& prospects = {},
                  bool keeps_frozen = false);

  /// Updates state n - 1 to n in place and computes the fingerprints for `digests`. `passes` is the
  /// number of micro-batches of the step, over all replicas; only statistics read it. With muon all
  /// ranks of the groups call it. Values that the store has dropped are recomputed unit by unit,
  /// and the gradients of each unit are freed. This needs memory for the values of one unit; with
  /// muon for those of all matrices, which come first.
  void update(stream& stream, const update_decision& decision, std::int64_t passes = 1);
  /// Writes state n to `to` and keeps state n - 1 in its arrays, with the same bits. The state is
  /// in `to` from the first moment on, even if the update fails half-way. Values that this rank
  /// does not own keep their content in `to`.
  void update_beside(stream& stream,
                     const update_decision& decision,
                     const state_arrays& to,
                     std::int64_t passes = 1);

  /// Returns the arrays of the state; the memory is shared. Breaks promise OPTIMIZER-1 if values
  /// are f32 and not in one array.
  state_arrays arrays() const;
  /// Returns zero arrays of the same sizes.
  state_arrays empty_arrays(memory_pool& pool) const;
  /// Returns the ranges of `state_arrays::weights` that this rank owns, ascending, as (begin, end)
  /// in elements.
  std::vector<std::pair<std::int64_t, std::int64_t>> own_weights() const;
  /// Returns the arrays that the digests cover, one part for each of own_weights().
  std::vector<digested_part> digested() const;
  /// Rounds the owned values from their masters, if values are rounded. Copies frozen ones, and
  /// those that stay f32.
  void round_values(stream& stream);
  /// Rounds the owned values that the store has dropped.
  void round_dropped_values(stream& stream);

  // The results are added to `to` when the reads finish.

  /// Norms of the reduced gradients in gradients(0) of the store. Reuses what gradients() has read.
  void norms(reads& by, square_norms& to) const { gradients_->read(by, &to, nullptr); }
  /// Counts the zeros among the same elements.
  void zero_gradients(reads& by, by_view<std::int64_t>& to) const;
  /// Square norm of the weights (masters, if any) that this rank reports.
  void square_norm_of_weights(reads& by, by_view<exact_sum>& to) const;
  /// Digests without padding rows.
  void digests(reads& by, chunk_digests& to) const;

  // Blocking variants.
  square_norms norms(stream& stream) const {
    return read<square_norms>(stream, &optimizer_state::norms);
  }
  chunk_digests digests(stream& stream) const {
    return read<chunk_digests>(stream, &optimizer_state::digests);
  }

  /// An owned range and its state; of a stack the range is inside one matrix. Tied copies of an
  /// entry of the same store have no part. The weights of a frozen part are values of the store's
  /// type. A frozen part and one of statistics have no state.
  struct part {
    entry_range range;
    optimizer_kind rule = optimizer_kind::adam;
    bool frozen = false;
    bool counted = false;     ///< updated by statistics, not by `rule`
    std::int64_t words = 0;   ///< f32 words of the weights
    std::int64_t offset = 0;  ///< offset in the masters; -1: the weights are only in the store
    std::vector<std::int64_t> at = {};  ///< offset of each array of the rule in the state
  };
  /// In the order of their ranges.
  const std::vector<part>& parts() const { return parts_; }
  // The arrays may be modified; the next digests are then recomputed.
  std::span<float> weights(const part& x);  ///< the masters or the f32 values
  /// Returns the array with this index in state_names(x.rule).
  std::span<float> state(const part& x, std::size_t array);
  std::span<float> first_moment(const part& x) { return state(x, 0); }
  std::span<float> second_moment(const part& x) { return state(x, 1); }

  /// Sets the owned weights of an entry from `begin` on, from the host. Only valid elements are
  /// set.
  void set_weights(int entry, std::int64_t begin, std::span<const float> from);

  parameter_store& store() { return store_; }

  /// Norms and digests of the reduced gradients, in the order of the parts.
  gradient_norms& gradients() { return *gradients_; }
  const gradient_norms& gradients() const { return *gradients_; }

 private:
  template <class T>
  T read(stream& stream, void (optimizer_state::*what)(reads&, T&) const) const {
    T out;
    reads by(stream);
    (this->*what)(by, out);
    by.finish();
    return out;
  }
  void make_keys(memory_pool& pool, const gradient_prospects& prospects);
  void exchange(const state_arrays& to);
  void copy_part(stream& stream, const part& x, const state_arrays& from);
  void round_weights(stream& stream, const part& x);
  void update(stream& stream,
              const update_decision& decision,
              const state_arrays& from,
              std::int64_t passes);
  bool lacks_values(const part& x) const { return !store_.has_values(x.range.entry); }
  int unit_of(const part& x) const { return store_.entries()[std::size_t(x.range.entry)].unit; }
  /// Parts [begin, end) that one operation updates.
  struct run {
    std::size_t begin, end;
  };
  std::vector<run> runs_of(const update_decision& decision, bool by_unit) const;
  std::int64_t weights_offset(const part& x) const;
  double rate_of(const part& x, const update_decision& decision) const;
  double decay_of(const part& x, const update_decision& decision) const;
  dtype type_of(const part& x) const {
    return store_.type_of(store_.entries()[std::size_t(x.range.entry)]);
  }
  /// True if the store has values beside the masters, and they are f32.
  bool copies_master(const part& x) const { return master_ && type_of(x) == dtype::f32; }
  void* values_at(const part& x);
  /// Where an operation rounds the weights to; null: nowhere.
  void* rounded_at(const part& x);
  const float* gradient_at(const part& x) const;
  /// Destinations of the fingerprints of each part's arrays.
  using wanted = std::vector<kernels::written_fingerprints>;
  void update_adam(stream& stream,
                   const update_decision& decision,
                   const state_arrays& from,
                   std::size_t begin,
                   std::size_t end,
                   const wanted& to);
  void update_momentum(stream& stream,
                       const update_decision& decision,
                       const part& x,
                       const kernels::written_fingerprints& to);
  void update_counted(stream& stream,
                      const part& x,
                      std::int64_t passes,
                      const kernels::written_fingerprints& to);
  void update_muon(stream& stream, const update_decision& decision, const wanted& to);
  /// Updates the momentum and writes what is orthogonalized to `change`.
  void mix_momentum(stream& stream,
                    const update_decision& decision,
                    const part& x,
                    const kernels::written_fingerprints& of_weights,
                    float* change);
  std::size_t index_of(const part& x) const { return std::size_t(&x - parts_.data()); }
  const optimizer_groups::owners* owners_of(int entry) const;
  /// An array of a part with the keys of its grains.
  struct stored_array {
    const float* x;
    std::int64_t n;
    const std::uint64_t* keys;
  };
  /// Returns weights and state of a part. Their keys start at `key`, which is advanced.
  std::vector<stored_array> arrays_at(const part& x, const std::uint64_t*& key) const;
  const float* weights_at(const part& x) const;
  /// Calls visit(part, entry) for each part that the optimizer's rule updates and that this rank
  /// reports.
  template <class Visit>
  void for_each_answered(const Visit& visit) const;

  parameter_store& store_;
  optimizer_settings settings_;
  std::int64_t grain_;
  std::vector<part> parts_;
  optimizer_groups groups_;
  tensor state_;             ///< arrays of all parts, part by part
  tensor master_;            ///< empty: values are f32
  tensor keys_;              ///< keys of all grains, by part: weights, then the state
  std::int64_t arrays_ = 0;  ///< number of arrays of all parts, with weights
  /// (arrays_, 2), written by update(); empty before the first update and after external writes to
  /// the state
  tensor fingerprints_;
  std::optional<gradient_norms> gradients_;  ///< created after the parts
};

/// Appends the keys of an array's grains. `array` 0 is the weights, then the rule's arrays.
void add_keys_of_grains(const digested_part& x,
                        std::uint64_t array,
                        std::int64_t grain,
                        std::vector<std::uint64_t>& to);

/// Combines the digests of all parameters into one, in the order of their names.
digest combine(const std::map<std::string, digest>& parts);

}  // namespace troupe::runtime
