#include "runtime/layout/mesh.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::array<std::string_view, axes> names = {"tp", "cp", "ep", "dp", "pp"};

std::int64_t nearest_multiple(std::int64_t of, std::int64_t model) {
  return model < 1 ? 1 : std::max<std::int64_t>(1, (of + model / 2) / model) * model;
}

}  // namespace

std::string_view short_name(axis x) {
  return names[std::size_t(x)];
}

mesh::mesh(const coordinates& extents, std::string_view order) : extents_(extents), order_(order) {
  for (int a = 0; a < axes; ++a)
    if (extents_[std::size_t(a)] < 1)
      throw input_error("the size of axis {} is {}: it must be at least 1",
                        names[std::size_t(a)],
                        extents_[std::size_t(a)]);
  std::string_view rest = order;
  while (!rest.empty()) {
    const auto word = rest.substr(0, rest.find('-'));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto a = std::size_t(std::find(names.begin(), names.end(), word) - names.begin());
    if (a == axes || strides_[a] != 0)
      throw input_error(
          "rank order '{}': '{}' {}; name each of tp cp ep dp pp once, e.g. "
          "tp-cp-ep-dp-pp",
          order,
          word,
          a == axes ? "is not an axis" : "stands twice");
    strides_[a] = size_;
    size_ *= extents_[a];
  }
  for (int a = 0; a < axes; ++a)
    if (strides_[std::size_t(a)] == 0 && extents_[std::size_t(a)] > 1)
      throw input_error("rank order '{}' leaves out {}, whose size is {}",
                        order,
                        names[std::size_t(a)],
                        extents_[std::size_t(a)]);
}

coordinates mesh::at(int rank) const {
  coordinates out = {};
  for (std::size_t a = 0; a < axes; ++a)
    out[a] = strides_[a] == 0 ? 0 : rank / strides_[a] % extents_[a];
  return out;
}

int mesh::rank(const coordinates& at) const {
  int out = 0;
  for (std::size_t a = 0; a < axes; ++a)
    out += at[a] * strides_[a];
  return out;
}

std::vector<int> mesh::group(int rank, axis_set along) const {
  std::vector<int> out = {rank};
  for (std::size_t a = 0; a < axes; ++a) {
    if (!along.has(axis(a)) || extents_[a] == 1)
      continue;
    std::vector<int> wider;
    for (const int r : out)
      for (int i = 0; i < extents_[a]; ++i)
        wider.push_back(r + (i - at(rank)[a]) * strides_[a]);
    out = std::move(wider);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::vector<int>> mesh::groups(axis_set along) const {
  std::vector<std::vector<int>> out;
  for (int r = 0; r < size_; ++r) {
    const auto where = at(r);
    bool first = true;
    for (std::size_t a = 0; a < axes; ++a)
      first = first && (!along.has(axis(a)) || where[a] == 0);
    if (first)
      out.push_back(group(r, along));
  }
  return out;
}

mesh make_mesh(int world, int tensor, int context, int pipeline, std::string_view order) {
  const auto model = std::int64_t{tensor} * context * pipeline;
  if (world < 1 || model < 1 || world % model != 0)
    throw input_error(
        "--world-size {} is not a multiple of tensor {} x context {} x pipeline {} = {}: data "
        "parallelism is what remains; the nearest that would do: {}",
        world,
        tensor,
        context,
        pipeline,
        model,
        nearest_multiple(world, model));
  return mesh({tensor, context, 1, int(world / model), pipeline}, order);
}

mesh fold_experts(const mesh& dense, int expert, int expert_tensor) {
  const int pipeline = dense.extent(axis::pipeline);
  const auto model = std::int64_t{expert} * expert_tensor * pipeline;
  if (model < 1 || dense.size() % model != 0)
    throw input_error(
        "--world-size {} is not a multiple of expert {} x expert tensor {} x pipeline {} = {}: the "
        "data parallelism of experts is what remains; the nearest that would do: {}",
        dense.size(),
        expert,
        expert_tensor,
        pipeline,
        model,
        nearest_multiple(dense.size(), model));
  mesh out({expert_tensor, 1, expert, int(dense.size() / model), pipeline}, dense.order());
  if (out.groups(axis::pipeline) != dense.groups(axis::pipeline))
    throw input_error(
        "rank order '{}': experts would lie in other pipelines than the rest of their layers, "
        "because there are {} ranks before pp in one view and {} in the other; let pp be last, "
        "e.g. "
        "tp-cp-ep-dp-pp, or choose --expert-model-parallel-size and --expert-tensor-parallel-size "
        "whose product is that of --tensor- and --context-",
        dense.order(),
        dense.group(0, axis::pipeline).at(1),
        out.group(0, axis::pipeline).at(1));
  return out;
}

}  // namespace troupe::runtime
