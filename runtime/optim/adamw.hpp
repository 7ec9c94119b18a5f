// AdamW over a store: the update is a pure function of (state n - 1, reduced gradients n, step n).

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/parameters/resident_store.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::runtime {

struct adamw_settings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip = 1.0;  ///< largest norm of all gradients; 0: no clipping

  /// The step after which moments were zero: 0, or where --no-load-optim went on. The bias of
  /// moments is corrected by the steps since then.
  std::uint64_t moments_from = 0;

  friend bool operator==(const adamw_settings&, const adamw_settings&) = default;
};

/// What the whole job decides before anybody updates.
struct update_decision {
  std::uint64_t step = 0;  ///< 1 is the first
  double learning_rate = 0;
  double gradient_scale = 1;  ///< clipping

  friend bool operator==(const update_decision&, const update_decision&) = default;
};

/// min(1, clip / (norm + 1e-6)), as Megatron-LM clips.
double clip_coefficient(double norm, double clip);

/// Square norms of the reduced gradients of each parameter, by name. A sum over the whole model is
/// taken in the order of the names, so that no layout changes its bits. A tied parameter counts
/// once, on the side of its owner.
using square_norms = std::map<std::string, double>;

double total_norm(const square_norms& parts);

/// Moments, and the update. One lane.
class adamw {
 public:
  adamw(resident_store& store, const adamw_settings& settings, memory_pool pool);

  /// Of gradients(0) of the store, where the reduced gradients are.
  square_norms norms(stream& on) const;

  /// State n - 1 -> n, in place.
  void update(stream& on, const update_decision& decision);

  /// Parameters and moments of each parameter, hashed, by name. Padding rows are left out, and a
  /// tied copy is told by its owner: all layouts name the same things.
  std::map<std::string, digest> digests() const;

  std::span<float> first_moments() { return {first_.data<float>(), std::size_t(first_.size())}; }
  std::span<float> second_moments() { return {second_.data<float>(), std::size_t(second_.size())}; }
  resident_store& store() { return store_; }

 private:
  resident_store& store_;
  adamw_settings settings_;
  tensor first_, second_;  ///< offsets of values()
};

/// One digest for the state of the whole model: the parts in the order of their names.
digest combine(const std::map<std::string, digest>& parts);

/// Adds the gradient of a parameter that is tied within this store to its owner's: embedding +
/// head, in this order. The norm and the update then see the sum.
void add_tied_gradients(stream& on, resident_store& store);

/// gradients(0) = the sum over the store's logical replicas, in their order.
void sum_replicas(stream& on, resident_store& store);

}  // namespace troupe::runtime
