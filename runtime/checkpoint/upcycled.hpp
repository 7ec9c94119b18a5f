// Upcycling: a model with experts begins with the parameters of a dense model.
//
// Komatsuzaki et al.: "Sparse Upcycling", 2023; He et al.: "Upcycling Large Language Models into
// Mixture of Experts", 2024. As in Megatron-LM, with granularity G:
//
//   expert e        slice e mod G of the dense width: rows of gate and of up, columns of fc2, times
//                   the factor of the family (dense_origin)
//   router, row e   the initial row e / G, so that the slices of one layer have equal logits
//   others          the dense parameter of this name, or else the initial values

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/initial_parameters.hpp"
#include "runtime/family/model_family.hpp"

#include <cstdint>

namespace troupe::runtime {

/// See model_family. Breaks UPCYCLE-1 for a model that violates a rule or has no experts.
dense_origin dense_origin_of(const model_description& model, std::int64_t granularity);

/// The initial parameters of a model with experts. Immutable and thread-safe.
class upcycled_parameters {
 public:
  using shard = initial_parameters::shard;

  /// `seed`: of the initial values. Breaks UPCYCLE-1 as dense_origin_of.
  upcycled_parameters(const model_description& model, std::int64_t granularity, std::uint64_t seed);

  /// Fills a box of a parameter, for any number of ranks that share it. Throws input_error if the
  /// checkpoint lacks its source or has it with other extents. Breaks UPCYCLE-2 if the model lacks
  /// the parameter.
  void read(const checkpoint_reader& dense, const shard& to) const;

 private:
  void read_experts(const checkpoint_reader& dense, const parameter_spec& x, const shard& to) const;

  float factor_;
  initial_parameters all_;
  std::int64_t granularity_;
};

}  // namespace troupe::runtime
