// Orthogonalized updates. Jordan et al.: "Muon", 2024; Newton-Schulz steps of the fifth degree:
//
//   X = G / max(|G|, 1e-7)        |G| its Frobenius norm
//   A = X X^T (or X^T X)          of the smaller side; where shards are put together, of the side
//                                 that is whole on every rank
//   X = a X + (b A + c A^2) X     (or X (b A + c A^2)), with the numbers of each step
//
// All of it in fp32. What comes out is nearly U V^T of G = U S V^T, times muon_factor.

#pragma once

#include "runtime/collective/communicator.hpp"
#include "runtime/optim/optimizer_settings.hpp"

namespace troupe::runtime {

/// What the orthogonalized matrix (R, C) is multiplied by.
double muon_factor(const muon_settings& settings, std::int64_t R, std::int64_t C);

/// Of a whole matrix (R, C), in place; without the factor.
void newton_schulz(
    stream& stream, const muon_settings& settings, float* x, std::int64_t R, std::int64_t C);

/// The same of a shard (R, C), whose rows (else columns) go on with the other ranks of the group.
void newton_schulz(stream& stream,
                   const muon_settings& settings,
                   float* x,
                   std::int64_t R,
                   std::int64_t C,
                   communicator& group,
                   bool rows_are_sharded);

/// Of what lies on this rank of a parameter, in place, with the factor; queries, keys and values
/// apart where the settings say so. `tensor`: null, or the ranks that hold the shards, each of
/// which calls it.
void orthogonalize(stream& stream,
                   const muon_settings& settings,
                   const parameter_spec& parameter,
                   const axis_ranks& ranks,
                   communicator* tensor,
                   float* x);

}  // namespace troupe::runtime
