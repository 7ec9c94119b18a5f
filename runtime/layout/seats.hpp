// The seats of a job: the coordinates, name, peers, stage and followers of each rank.
//
// Two meshes have the same ranks: one of dense layers, one of experts. All of these are
// derived from the table of axes (axis.hpp); callers do not compute with ranks.

#pragma once

#include "runtime/layout/mesh.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

class seats {
 public:
  /// `experts` folds the ranks of `dense`: see fold_experts.
  seats(mesh dense, mesh experts);

  int size() const { return dense_.size(); }
  int extent(axis a) const { return view_of(a).extent(a); }
  coordinates extents() const;
  /// Position on the axes of both meshes.
  coordinates at(int rank) const;
  /// The rank at a position on the axes of dense layers; ignores those of experts.
  int rank(const coordinates& at) const;
  /// The rank whose position differs only along this axis of dense layers.
  int beside(int rank, axis along, int position) const;

  /// All ranks that differ only along these axes, including `rank` itself, ascending. Breaks
  /// SEATS-2 if they belong to both meshes.
  std::vector<int> peers(int rank, axis_set along) const;
  /// True for the first of these peers.
  bool is_first(int rank, axis_set along) const;
  /// The axes of a sum without those of extent 1. Axes that separate replicas stay: a rank may
  /// compute several replicas.
  axis_set summed(axis_set along) const;

  int replicas() const { return extent(axis::data); }
  /// Number of stages of each replica.
  int stages() const;
  /// Index among the stages of a replica: by pipeline rank, then by the axes that split a replica.
  int stage_index(int rank) const;
  int rank_of_stage(int replica, int index) const;
  /// The ranks of a replica, by stage index.
  std::vector<int> replica(int r) const;

  /// "1.0": replica and pipeline rank; then the position on each axis with several ranks that
  /// splits a replica: "1.0.2".
  std::string name(int rank) const;
  /// ".2": the position on the axes that split a replica, besides those in `without`. Axes of
  /// extent 1 are left out, the tensor axis only with `with_tensor` false.
  std::string position_in_stage(int rank, axis_set without = {}, bool with_tensor = true) const;
  /// "context and data": the axes of a group.
  static std::string title_of(axis_set along);
  /// "tensor of stage 1.0", "data of pipeline rank 0.2", "expert data of pipeline rank 0.ep1". Each
  /// group has its own name. `of`: what the group belongs to, if not to a stage or pipeline rank.
  std::string name_of_group(int rank, axis_set along, std::string of = {}) const;

  /// The ranks that follow the choices of this one: the others of its pipeline rank and replica.
  /// Empty unless this rank leads.
  std::vector<int> followers(int rank) const;
  /// True for the first of the ranks that share a pipeline rank of a replica.
  bool leads(int rank) const;

  /// The ranks whose parameters of these layers are equal, ascending: they differ only along the
  /// axes that sum the gradients.
  std::vector<int> alike(int rank, axis_view layers) const;
  /// SEATS-1: true for the first of them. It counts and writes these parameters.
  bool counts(int rank, axis_view layers) const { return alike(rank, layers).front() == rank; }
  /// The number of consecutive replicas that each expert group covers; 1: a replica exchanges rows
  /// with no other one. The same stage has equal parameters in all replicas at this distance, the
  /// last one being followed by the first. 0: groups cover replicas unevenly.
  int span() const;

 private:
  const mesh& view_of(axis a) const;

  mesh dense_, experts_;
};

}  // namespace troupe::runtime
