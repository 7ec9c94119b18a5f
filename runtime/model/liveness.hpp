// Which named tensors a chunk needs: from the micro-batch, and across its cuts. Derived from what
// its model's units read and write.
//
// A tensor of the micro-batch comes from the loader to the first chunk that reads it, and travels
// down the line to the last one. A stream crosses each cut between a unit that writes it and a
// later one that reads it. Its gradient comes back over the same cuts; each chunk adds the
// gradients of its own units, last unit first, to what it receives. So the sum has one order for
// all cuts.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/model/model_spec.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::runtime {

/// Selects units [first, end) of a model.
struct chunk_range {
  std::int64_t first = 0;
  std::int64_t end = 0;

  friend bool operator==(const chunk_range&, const chunk_range&) = default;

  static constexpr auto fields() {
    using x = chunk_range;
    return std::tuple(row("first", &x::first), row("end", &x::end));
  }
};

/// The whole model.
chunk_range all_of(const model_spec& model);

/// The tensors that cross a cut. Borders of documents do so only if the micro-batch has them.
struct model_cut {
  std::vector<std::string> streams;  ///< hidden states; their gradients come back
  std::vector<std::string> inputs;   ///< of the micro-batch

  bool is_crossed() const { return !streams.empty() || !inputs.empty(); }
};

/// All cuts: before each unit, and after the last.
std::vector<model_cut> cuts_of(const model_spec& model);

/// What a chunk exchanges.
struct chunk_flow {
  std::vector<std::string> batch;  ///< taken from the micro-batch
  model_cut before, after;

  /// It exchanges nothing with other chunks.
  bool is_whole() const { return !before.is_crossed() && !after.is_crossed(); }
};

/// Breaks MODEL-4 unless the model has these units.
chunk_flow flow_of(const model_spec& model, const chunk_range& range);

}  // namespace troupe::runtime
