#include "runtime/layout/mesh.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

std::int64_t nearest_multiple(std::int64_t of, std::int64_t model) {
  return model < 1 ? 1 : std::max<std::int64_t>(1, (of + model / 2) / model) * model;
}

}  // namespace

mesh::mesh(std::initializer_list<std::pair<axis, int>> extents, std::string_view order)
    : order_(order) {
  for (const auto& row : axis_table())
    extents_[row.id] = 1;
  axis_map<char> own;
  for (const auto& [a, extent] : extents) {
    if (extent < 1)
      throw input_error(
          "the size of axis {} is {}: it must be at least 1", row_of(a).order_name, extent);
    extents_[a] = extent;
    own[a] = 1;
  }
  // An axis name may belong to both views; prefer the axis that this mesh was given.
  const auto find = [&](std::string_view name) {
    const axis_row* found = nullptr;
    for (const auto& row : axis_table())
      if (!name.empty() && row.order_name == name && (found == nullptr || own[row.id]))
        found = &row;
    return found;
  };
  for (std::string_view rest = order; !rest.empty();) {
    const auto word = rest.substr(0, rest.find('-'));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto* const row = find(word);
    if (row == nullptr || strides_[row->id] != 0)
      throw input_error(
          "rank order '{}': '{}' {}; name each of tp cp ep dp pp once, e.g. "
          "tp-cp-ep-dp-pp",
          order,
          word,
          row == nullptr ? "is not an axis" : "appears twice");
    strides_[row->id] = size_;
    size_ *= extents_[row->id];
  }
  for (const auto& row : axis_table())
    if (strides_[row.id] == 0 && extents_[row.id] > 1)
      throw input_error("rank order '{}' leaves out {}, whose size is {}",
                        order,
                        row.order_name,
                        extents_[row.id]);
}

coordinates mesh::at(int rank) const {
  coordinates out;
  for (const auto& row : axis_table())
    if (const int stride = strides_[row.id]; stride > 0)
      out[row.id] = rank / stride % extents_[row.id];
  return out;
}

int mesh::rank(const coordinates& at) const {
  int out = 0;
  for (const auto& row : axis_table())
    out += at[row.id] * strides_[row.id];
  return out;
}

std::vector<int> mesh::group(int rank, axis_set along) const {
  const auto here = at(rank);
  std::vector<int> out = {rank};
  for (const auto& row : axis_table()) {
    if (!along.has(row.id) || extents_[row.id] == 1)
      continue;
    std::vector<int> wider;
    for (const int r : out)
      for (int i = 0; i < extents_[row.id]; ++i)
        wider.push_back(r + (i - here[row.id]) * strides_[row.id]);
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
    for (const auto& row : axis_table())
      first = first && (!along.has(row.id) || where[row.id] == 0);
    if (first)
      out.push_back(group(r, along));
  }
  return out;
}

mesh make_mesh(int world, int tensor, int context, int pipeline, std::string_view order) {
  const auto model = std::int64_t{tensor} * context * pipeline;
  if (world < 1 || model < 1 || world % model != 0)
    throw input_error(
        "`layout.world` {} is not a multiple of tensor {} x context {} x pipeline {} = {}: the "
        "quotient is the data-parallel size; nearest valid: {}",
        world,
        tensor,
        context,
        pipeline,
        model,
        nearest_multiple(world, model));
  return mesh({{axis::tensor, tensor},
               {axis::context, context},
               {axis::data, int(world / model)},
               {axis::pipeline, pipeline}},
              order);
}

mesh fold_experts(const mesh& dense, int expert, int expert_tensor) {
  const int pipeline = dense.extent(axis::pipeline);
  const auto model = std::int64_t{expert} * expert_tensor * pipeline;
  if (model < 1 || dense.size() % model != 0)
    throw input_error(
        "`layout.world` {} is not a multiple of expert {} x expert tensor {} x pipeline {} = {}: "
        "the quotient is the data-parallel size of experts; nearest valid: {}",
        dense.size(),
        expert,
        expert_tensor,
        pipeline,
        model,
        nearest_multiple(dense.size(), model));
  mesh out({{axis::expert_tensor, expert_tensor},
            {axis::expert, expert},
            {axis::expert_data, int(dense.size() / model)},
            {axis::pipeline, pipeline}},
           dense.order());
  if (out.groups(axis::pipeline) != dense.groups(axis::pipeline))
    throw input_error(
        "rank order '{}': experts would be in other pipelines than the rest of their layers: pp "
        "has a stride of {} ranks in one view and {} in the other; put pp last, e.g. "
        "tp-cp-ep-dp-pp, or choose `layout.expert` and `layout.expert_tensor` with the same "
        "product as `layout.tensor` and `layout.context`",
        dense.order(),
        dense.group(0, axis::pipeline).at(1),
        out.group(0, axis::pipeline).at(1));
  return out;
}

}  // namespace troupe::runtime
