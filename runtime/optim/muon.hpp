// Orthogonalized updates of Muon (Jordan et al.: "Muon", 2024), by Newton-Schulz steps of degree 5:
//
//   X = G / max(|G|, 1e-7)        |G| is the Frobenius norm
//   A = X X^T (or X^T X)          on the smaller side; for combined shards on the side
//                                 that each rank has in full
//   X = a X + (b A + c A^2) X     (or X (b A + c A^2)), with the coefficients of each step
//
// Everything is computed in fp32. The result approximates U V^T of G = U S V^T; orthogonalize()
// multiplies it by muon_factor.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/optim/optimizer_settings.hpp"

namespace troupe::runtime {

/// Returns the factor of the orthogonalized matrix (R, C).
double muon_factor(const muon_settings& settings, std::int64_t R, std::int64_t C);

/// Orthogonalizes a whole matrix (R, C) in place, without the factor.
void newton_schulz(
    stream& stream, const muon_settings& settings, float* x, std::int64_t R, std::int64_t C);

/// Orthogonalizes a matrix of which this rank has the shard (R, C). Its rows (else columns)
/// continue on the other ranks of the group.
void newton_schulz(stream& stream,
                   const muon_settings& settings,
                   float* x,
                   std::int64_t R,
                   std::int64_t C,
                   communicator& group,
                   bool rows_are_sharded);

/// Orthogonalizes this rank's part of a parameter in place and applies the factor. Treats queries,
/// keys and values separately if the settings say so. `group` is null, or the group of ranks with
/// the shards, along axis_of_matrices; all of them must call it.
void orthogonalize(stream& stream,
                   const muon_settings& settings,
                   const parameter_spec& parameter,
                   const axis_ranks& ranks,
                   communicator* group,
                   float* x);

}  // namespace troupe::runtime
