#include "runtime/layout/mesh.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

constexpr std::array<std::string_view, axes> names = {"tp", "cp", "ep", "dp", "pp"};

}  // namespace

std::string_view short_name(axis x) {
  return names[std::size_t(x)];
}

mesh::mesh(const coordinates& extents, std::string_view order) : extents_(extents) {
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

std::vector<int> mesh::group(int rank, axis along) const {
  auto where = at(rank);
  std::vector<int> out;
  for (int i = 0; i < extent(along); ++i) {
    where[std::size_t(along)] = i;
    out.push_back(this->rank(where));
  }
  return out;
}

std::vector<std::vector<int>> mesh::groups(axis along) const {
  std::vector<std::vector<int>> out;
  for (int r = 0; r < size_; ++r)
    if (at(r)[std::size_t(along)] == 0)
      out.push_back(group(r, along));
  return out;
}

mesh make_mesh(int world, int tensor, int context, int pipeline, std::string_view order) {
  const int model = tensor * context * pipeline;
  if (world < 1 || model < 1 || world % model != 0)
    throw input_error(
        "--world-size {} is not a multiple of tensor {} x context {} x pipeline {} = {}: data "
        "parallelism is what remains; the nearest that would do: {}",
        world,
        tensor,
        context,
        pipeline,
        model,
        model < 1 ? 1 : std::max(1, (world + model / 2) / model) * model);
  return mesh({tensor, context, 1, world / model, pipeline}, order);
}

}  // namespace troupe::runtime
