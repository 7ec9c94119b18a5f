// The optimizer over a store: the update is a pure function of (state n - 1, reduced gradients n,
// step n). Which rule updates a parameter, and what state that keeps: optimizer_settings.hpp.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/core/digested_part.hpp"
#include "runtime/core/hash.hpp"
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

/// What the whole job decides before anybody updates.
struct update_decision {
  std::uint64_t step = 0;  ///< counts updates: 1 is the first
  double learning_rate = 0;
  double gradient_scale = 1;  ///< clipping, and what undoes the scale of the loss
  /// Of the word embedding and the output layer; nothing: that of all others.
  std::optional<double> decoupled_learning_rate = {};
  std::optional<double> weight_decay = {};  ///< nothing: that of the settings

  friend bool operator==(const update_decision&, const update_decision&) = default;
};

/// min(1, clip / (norm + 1e-6)), as Megatron-LM clips.
double clip_coefficient(double norm, double clip);

/// Digests of a state by parameter: weights in f32 (masters, if any) and the rule's state, of this
/// rank's ranges. Those of parts add up.
struct state_digests {
  std::map<std::string, digest> own;
  /// Of what another rank answers for: a tied copy of another stage, and what every tensor rank
  /// has. They must equal its own.
  std::map<std::string, digest> copies;

  friend bool operator==(const state_digests&, const state_digests&) = default;
};

/// Of a part of the state, by what its rule keeps: sgd's and muon's momentum is a first moment.
enum class state_array : std::uint8_t { weights, first_moment, second_moment };

/// With whom a rank puts whole matrices together, which muon asks for. Null: it has all of them.
struct optimizer_groups {
  communicator* tensor = nullptr;
  /// Of an entry: the replicas that own ranges of it, and where the range of each ends, in elements
  /// of the entry. Empty: each entry is owned whole.
  struct owners {
    communicator* group = nullptr;
    std::vector<std::int64_t> ends = {};
  };
  std::vector<owners> of_entry = {};
};

/// What the state lies in: it can be kept, and exchanged for other arrays of the same sizes. On a
/// device each stands apart (memory_pool::allocate_apart): a rank's estate keeps it longer than who
/// made it uses the pool.
struct state_arrays {
  /// f32: the masters; where values are f32, all values of the store
  /// (parameter_store::value_array).
  tensor weights = {};
  tensor kept = {};  ///< f32: what the rules keep, of all parts
};

/// The rules' state, master weights where values are rounded, and the update, of the ranges that
/// this rank owns. One lane.
class optimizer_state {
 public:
  /// The state is zero, and so are masters: `set_weights` fills them. Or it is what lies in `from`,
  /// which was that of a rank like this one; where values are f32 the store has its weights.
  optimizer_state(parameter_store& store,
                  const optimizer_settings& settings,
                  std::vector<entry_range> owned,
                  memory_pool pool,
                  std::int64_t grain = default_grain,
                  optimizer_groups groups = {},
                  const state_arrays& from = {},
                  const gradient_prospects& prospects = {});

  /// State n - 1 -> n, in place. Takes the fingerprints of what it writes, for `digests`. With muon
  /// all ranks of the groups call it. Where the store has dropped values they come unit by unit,
  /// and the gradients of each go: it needs memory for the values of one unit; with muon for those
  /// of all matrices, which come first.
  void update(stream& stream, const update_decision& decision);
  /// The same beside: state n - 1 stays in its arrays, and state n is in `to`, from the first
  /// moment on also where it fails half-way. Same bits. What nobody owns here of the values keeps
  /// what `to` had there.
  void update_beside(stream& stream, const update_decision& decision, const state_arrays& to);

  /// Where the state lies: the memory is shared. Broken promise OPTIMIZER-1 where values are f32
  /// and do not lie in one array.
  state_arrays arrays() const;
  /// Others of the same sizes, zero.
  state_arrays empty_arrays(memory_pool& pool) const;
  /// What of `state_arrays::weights` is this rank's, in elements: ascending, begin and end.
  std::vector<std::pair<std::int64_t, std::int64_t>> own_weights() const;
  /// Of which of these arrays the digests are, one part for each of own_weights().
  std::vector<digested_part> digested() const;
  /// Where values are rounded: makes those that are owned from their masters.
  void round_values(stream& stream);
  /// The same of those that the store has dropped.
  void round_dropped_values(stream& stream);

  // What is added to `to` when the reads finish.

  /// Of gradients(0) of the store, where the reduced gradients are; as far as they were not taken
  /// before (gradients()).
  void norms(reads& by, square_norms& to) const { gradients_->read(by, &to, nullptr); }
  /// The same elements, counted: those that are zero.
  void zero_gradients(reads& by, std::int64_t& to) const;
  /// Of the weights (the masters, if any) that this rank answers for, as the norms of gradients.
  void square_norm_of_weights(reads& by, exact_sum& to) const;
  /// Padding rows are left out.
  void digests(reads& by, state_digests& to) const;

  // The same, waited for at once.
  square_norms norms(stream& stream) const {
    return read<square_norms>(stream, &optimizer_state::norms);
  }
  state_digests digests(stream& stream) const {
    return read<state_digests>(stream, &optimizer_state::digests);
  }

  /// A range that is owned, and its state. Tied copies of an entry of the same store have none.
  struct part {
    entry_range range;
    optimizer_kind rule = optimizer_kind::adam;
    std::int64_t offset = 0;            ///< in the masters
    std::vector<std::int64_t> at = {};  ///< of each array of the rule, in the state
  };
  const std::vector<part>& parts() const { return parts_; }
  // Where the store's arrays lie. They may be written to: the next digests are taken anew.
  std::span<float> weights(const part& x);  ///< the masters, or the values themselves
  /// The array with this number in state_names(x.rule).
  std::span<float> state(const part& x, std::size_t array);
  std::span<float> first_moment(const part& x) { return state(x, 0); }
  std::span<float> second_moment(const part& x) { return state(x, 1); }

  /// Sets the weights of valid elements of an entry from `begin` on, from the host: those that are
  /// owned.
  void set_weights(int entry, std::int64_t begin, std::span<const float> from);

  parameter_store& store() { return store_; }

  /// The reduced gradients of the parts: norms, and digests in the order of the parts.
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
  void update(stream& stream, const update_decision& decision, const state_arrays& from);
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
  void* rounded_at(const part& x);
  const float* gradient_at(const part& x) const;
  /// Where the fingerprints of each part's arrays go.
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
  void update_muon(stream& stream, const update_decision& decision, const wanted& to);
  const optimizer_groups::owners* owners_of(int entry) const;
  /// An array of a part, with the keys of its grains.
  struct stored_array {
    const float* x;
    std::int64_t n;
    const std::uint64_t* keys;
  };
  /// Weights and state of a part, whose keys are from `key` on, which moves on by them.
  std::vector<stored_array> arrays_at(const part& x, const std::uint64_t*& key) const;
  const float* weights_at(const part& x) const;
  /// Calls visit(part, entry) for each part that this rank answers for.
  template <class Visit>
  void for_each_answered(const Visit& visit) const;

  parameter_store& store_;
  optimizer_settings settings_;
  std::int64_t grain_;
  std::vector<part> parts_;
  optimizer_groups groups_;
  tensor state_;             ///< of all parts, the arrays of each one after the other
  tensor master_;            ///< empty: values are f32
  tensor keys_;              ///< of the fingerprints of each part's grains: weights, then the state
  std::int64_t arrays_ = 0;  ///< of all parts, weights too
  /// (arrays_, 2) of the state, as the update has left them; empty: nobody has, or somebody wrote
  /// to the state since
  tensor fingerprints_;
  std::optional<gradient_norms> gradients_;  ///< made when the parts are known
};

/// Of the grains of an array: `array` 0 are the weights, then what the rule keeps.
std::vector<std::uint64_t> keys_of_grains(const digested_part& x,
                                          std::uint64_t array,
                                          std::int64_t grain);

/// One digest for the state of the whole model: the parts in the order of their names.
digest combine(const std::map<std::string, digest>& parts);

/// Adds the gradient of a parameter that is tied within this store to its owner's: embedding +
/// head, in this order, on the ranges that are owned. The norm and the update then see the sum.
void add_tied_gradients(stream& stream,
                        parameter_store& store,
                        const std::vector<entry_range>& owned);

}  // namespace troupe::runtime
