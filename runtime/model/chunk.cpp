#include "runtime/model/chunk.hpp"

#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

void require_consistent(const model_spec& model) {
  const auto C = model.embedding.hidden;
  ensure(model.head.hidden == C && model.head.vocabulary == model.embedding.vocabulary
             && model.head.padded_vocabulary == model.embedding.padded_vocabulary
             && model.head.tied_to.empty() != model.embedding.tied,
         "MODEL-1: embedding and head have one width, one vocabulary, and are tied on both sides");
  for (const auto& layer : model.layers)
    for (const auto& sublayer : layer.sublayers)
      if (const auto* const residual = std::get_if<residual_sublayer>(&sublayer))
        ensure(residual->hidden() == C, "MODEL-2: every sublayer has the width of the embedding");
}

}  // namespace

chunk_range all_of(const model_spec& model) {
  return {0, std::int64_t(model.layers.size()), true, true};
}

chunk::chunk(model_spec model,
             const chunk_range& range,
             const axis_ranks& ranks,
             bool sequence_parallel)
    : model_(std::move(model)),
      range_(range),
      ranks_(ranks),
      sequence_parallel_(sequence_parallel && ranks[axis::tensor].size > 1) {
  require_consistent(model_);
  if (range.embedding)
    add_unit("embedding", "embedding", -1, model_.embedding);
  for (auto layer = range.first; layer < range.end; ++layer) {
    const auto name = model_.stack + ".layers." + std::to_string(layer);
    add_unit(name, name, layer, model_.layers.at(std::size_t(layer)));
  }
  if (range.head)
    add_unit("head", "", -1, model_.head);
  if (range.embedding)  // backward reads the table only through a tied head
    units_.front().read_backward = range.head && model_.embedding.tied;
}

template <class Spec>
void chunk::add_unit(std::string name,
                     const std::string& prefix,
                     std::int64_t layer,
                     const Spec& spec) {
  unit_under_construction unit{.unit = units_.emplace_back(unit_spec{std::move(name), {}}),
                               .number = int(units_.size()) - 1,
                               .layer = layer,
                               .ranks = ranks_,
                               .sequence_parallel = sequence_parallel_,
                               .attentions = attentions_,
                               .program = program_};
  module_builder to(unit, prefix);
  add(to, spec);
}

}  // namespace troupe::runtime
