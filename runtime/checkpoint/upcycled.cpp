#include "runtime/checkpoint/upcycled.hpp"

#include "runtime/checkpoint/own_parameters.hpp"
#include "runtime/core/error.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

/// "mlp.linear_fc1.weight" of "mlp.experts.linear_fc1.weight".
std::string name_without_experts(std::string name) {
  constexpr std::string_view part = ".experts.";
  return name.replace(name.find(part), part.size(), ".");
}

/// A box of one matrix of a stack.
box without_first(const box& x) {
  box out;
  for (int i = 1; i < x.extents.rank(); ++i) {
    out.first.push_back(x.first[i]);
    out.extents.push_back(x.extents[i]);
  }
  return out;
}

}  // namespace

dense_origin dense_origin_of(const model_description& model, std::int64_t granularity) {
  std::vector<std::string> wrong;
  auto out = model.family().dense_origin_of(model, granularity, wrong);
  ensure(out.has_value(), "UPCYCLE-1: the experts of a valid model are slices of a dense one");
  return *std::move(out);
}

upcycled_parameters::upcycled_parameters(const model_description& model,
                                         std::int64_t granularity,
                                         std::uint64_t seed)
    : factor_(float(dense_origin_of(model, granularity).factor)),
      all_(model, seed),
      granularity_(granularity) {}

void upcycled_parameters::read(const checkpoint_reader& dense, const shard& to) const {
  const auto* const found = all_.find(to.name);
  ensure(found != nullptr, "UPCYCLE-2: only parameters of the model are asked for");
  const auto& x = *found;
  if (x.stacked)
    return read_experts(dense, x, to);
  if (dense.has(to.name)) {
    require_extents(dense, to.name, to.whole);
    return dense.read(to.name, to.part, to.elements);
  }
  if (!to.name.ends_with(".router.weight"))
    return all_.draw(x, to.part, to.elements);
  const auto rows = to.part.extents[0];
  const auto row = std::size_t(to.part.size() / rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto source = (to.part.first[0] + r) / granularity_;
    all_.draw(
        x, between(to.part, 0, source, source + 1), to.elements.subspan(std::size_t(r) * row, row));
  }
}

void upcycled_parameters::read_experts(const checkpoint_reader& dense,
                                       const parameter_spec& x,
                                       const shard& to) const {
  // Expert tensor ranks share the width of an expert: rows of the first product, in a section for
  // the gate and one for the rest, or columns of the second one.
  const auto& cut = x.placements[axis::expert_tensor];
  const int d = cut.dimension - 1;
  const auto matrix = whole(one_of(x).extents), here = without_first(to.part);
  const auto width = matrix.extents[d] / cut.sections;
  const auto name = name_without_experts(x.name);
  require_extents(dense, name, between(matrix, d, 0, matrix.extents[d] * granularity_).extents);
  auto* out = to.elements.data();
  for (std::int64_t e = 0; e < to.part.extents[0]; ++e, out += here.size())
    for (std::int64_t section = 0; section < cut.sections; ++section) {
      const auto begin = section * width;
      const auto part = intersection(here, between(matrix, d, begin, begin + width));
      if (part.size() == 0)
        continue;
      const auto slice = (to.part.first[0] + e) % granularity_;
      const auto source = part.first[d] + begin * (granularity_ - 1) + slice * width;
      std::vector<float> values(std::size_t(part.size()));
      dense.read(name, between(part, d, source, source + part.extents[d]), values);
      for (auto& value : values)
        value *= factor_;
      copy_common(part, values.data(), here, out, sizeof(float));
    }
}

}  // namespace troupe::runtime
