// AdamW over a store: the update is a pure function of (state n - 1, reduced gradients n, step n).

#pragma once

#include "runtime/core/exact_sum.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/optim/schedules.hpp"
#include "runtime/parameters/buckets.hpp"
#include "runtime/parameters/store.hpp"
#include "runtime/tensor/reads.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

struct adamw_settings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip = 1.0;  ///< largest norm of all gradients; 0: no clipping

  /// The update after which moments were zero: 0, or where `checkpoints.no_load_optim` went on. The
  /// bias of moments is corrected by the updates since then.
  std::uint64_t moments_from = 0;

  // Weight decay that grows from the start to `weight_decay`.
  increase_style weight_decay_style = increase_style::constant;
  double start_weight_decay = 0;
  std::int64_t weight_decay_samples = 0;  ///< all of the run

  weight_decay_schedule decay() const {
    return {weight_decay_style == increase_style::constant ? weight_decay : start_weight_decay,
            weight_decay,
            weight_decay_style,
            weight_decay_samples};
  }
  friend bool operator==(const adamw_settings&, const adamw_settings&) = default;
};

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

/// Square norms of the reduced gradients of each parameter, by name. They add up exactly, in any
/// order and from any parts, so that no layout of the data and pipeline axes changes their bits. A
/// tied parameter counts once, on the side of its owner; one that every tensor rank has, on the
/// first.
using square_norms = std::map<std::string, exact_sum>;

double total_norm(const square_norms& parts);

/// Adds what other ranks hold of the same or other parameters.
void add_to(square_norms& sum, const square_norms& part);

/// Digests of a state by parameter: weights in f32 (masters, if any) and both moments, of this
/// rank's ranges. Those of parts add up.
struct state_digests {
  std::map<std::string, digest> own;
  /// Of what another rank answers for: a tied copy of another stage, and what every tensor rank
  /// has. They must equal its own.
  std::map<std::string, digest> copies;

  friend bool operator==(const state_digests&, const state_digests&) = default;
};

/// Moments, master weights where values are rounded, and the update, of the ranges that this rank
/// owns. One lane.
class adamw {
 public:
  /// Moments are zero, and so are masters: `set_weights` fills them.
  adamw(parameter_store& store,
        const adamw_settings& settings,
        std::vector<entry_range> owned,
        memory_pool pool,
        std::int64_t grain = default_grain);

  /// State n - 1 -> n, in place. Takes the fingerprints of what it writes, for `digests`.
  void update(stream& stream, const update_decision& decision);

  // What is added to `to` when the reads finish.

  /// Of gradients(0) of the store, where the reduced gradients are.
  void norms(reads& by, square_norms& to) const;
  /// The same elements, counted: those that are zero.
  void zero_gradients(reads& by, std::int64_t& to) const;
  /// Of the weights (the masters, if any) that this rank answers for, as the norms of gradients.
  void square_norm_of_weights(reads& by, exact_sum& to) const;
  /// Padding rows are left out.
  void digests(reads& by, state_digests& to) const;

  // The same, waited for at once.
  square_norms norms(stream& stream) const { return read<square_norms>(stream, &adamw::norms); }
  state_digests digests(stream& stream) const {
    return read<state_digests>(stream, &adamw::digests);
  }

  /// A range that is owned, and its state. Tied copies of an entry of the same store have none.
  struct part {
    entry_range range;
    std::int64_t offset = 0;  ///< in the arrays of the moments
  };
  const std::vector<part>& parts() const { return parts_; }
  // Where the store's arrays lie. They may be written to: the next digests are taken anew.
  std::span<float> weights(const part& x);  ///< the masters, or the values themselves
  std::span<float> first_moment(const part& x) { return slice(first_, x); }
  std::span<float> second_moment(const part& x) { return slice(second_, x); }

  /// Sets the weights of valid elements of an entry from `begin` on, from the host: those that are
  /// owned.
  void set_weights(int entry, std::int64_t begin, std::span<const float> from);

  parameter_store& store() { return store_; }

 private:
  template <class T>
  T read(stream& stream, void (adamw::*what)(reads&, T&) const) const {
    T out;
    reads by(stream);
    (this->*what)(by, out);
    by.finish();
    return out;
  }
  void make_keys(memory_pool& pool);

  std::span<float> slice(tensor& of, const part& x) {
    fingerprints_ = {};
    return {of.data<float>() + x.offset, std::size_t(x.range.size())};
  }
  const float* weights_at(const part& x) const;
  /// Calls visit(part, entry) for each part that this rank answers for.
  template <class Visit>
  void for_each_answered(const Visit& visit) const;

  parameter_store& store_;
  adamw_settings settings_;
  std::int64_t grain_;
  std::vector<part> parts_;
  tensor first_, second_;
  tensor master_;  ///< empty: values are f32
  tensor keys_;    ///< of the fingerprints of each part's grains: weights, both moments
  /// (parts, 3, 2) of the state, as the update has left them; empty: nobody has, or somebody wrote
  /// to the state since
  tensor fingerprints_;
};

/// One digest for the state of the whole model: the parts in the order of their names.
digest combine(const std::map<std::string, digest>& parts);

/// Adds the gradient of a parameter that is tied within this store to its owner's: embedding +
/// head, in this order, on the ranges that are owned. The norm and the update then see the sum.
void add_tied_gradients(stream& stream,
                        parameter_store& store,
                        const std::vector<entry_range>& owned);

}  // namespace troupe::runtime
