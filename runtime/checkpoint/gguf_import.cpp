// The weights of a GGUF file under the names of the Hub.

#include "runtime/checkpoint/gguf_model.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"

#include <set>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// The extents without leading ones.
shape without_ones(const shape& x) {
  shape out;
  for (const auto extent : x)
    if (out.rank() > 0 || extent != 1)
      out.push_back(extent);
  return out;
}

bool fits(const gguf_tensor& x, const gguf_place& at, const shape& expected) {
  if (at.matrix < 0)
    return without_ones(x.extents) == without_ones(expected);
  return x.extents.rank() == 3 && at.matrix < x.extents[0]
         && shape{x.extents[1], x.extents[2]} == expected;
}

/// The row of the file that has a row of the Hub. In the Hub, a head has the first elements of all
/// rotary pairs, then the second ones.
std::int64_t paired_row(std::int64_t row, std::int64_t head_size) {
  const auto half = head_size / 2, within = row % head_size;
  return row - within + within % half * 2 + within / half;
}

void read_place(const gguf_file& file,
                const gguf_tensor& x,
                const gguf_place& at,
                const shape& extents,
                std::int64_t first,
                std::span<float> out) {
  const auto begin = std::max<std::int64_t>(at.matrix, 0) * extents.size();
  if (at.paired == 0)
    return file.read(x, begin + first, out);
  const auto columns = std::size_t(row_size(extents));
  for (std::size_t done = 0; done < out.size(); done += columns) {
    const auto row = (first + std::int64_t(done)) / std::int64_t(columns);
    file.read(
        x, begin + paired_row(row, at.paired) * std::int64_t(columns), out.subspan(done, columns));
  }
}

}  // namespace

void hub_model::place_gguf(const fs::path& dir) {
  const auto plan = translation().gguf_of(config_);
  const auto& file = *gguf_;
  std::set<std::string> used = {"rope_freqs.weight"};  // is in config.json
  for (auto& recipe : recipes_) {
    recipe.transposed = false;  // GGUF has all matrices as (out, in)
    for (const auto& rows : recipe.rows) {
      if (sources_.contains(rows.source))
        continue;
      const auto at = plan.place(rows.source);
      const auto* const x = file.find_tensor(at.tensor);
      if (x == nullptr)
        throw input_error("'{}': tensor '{}' is missing; the file has no whole model",
                          file.path().string(),
                          at.tensor);
      const auto expected = source_extents(recipe, rows);
      if (!fits(*x, at, expected))
        throw input_error("'{}': tensor '{}' is {}, but by the metadata {} should be {}",
                          file.path().string(),
                          at.tensor,
                          to_string(x->extents),
                          at.matrix < 0 ? "it" : "each of its matrices",
                          to_string(expected));
      used.insert(at.tensor);
      sources_.emplace(
          rows.source,
          tensor_source{.file = &file.path(),
                        .type = format_of(x->type).name,
                        .extents = expected,
                        .bytes = file.bytes(*x),
                        .read = [&file, x, at, expected](std::int64_t first, std::span<float> out) {
                          read_place(file, *x, at, expected, first, out);
                        }});
    }
  }
  for (const auto& x : file.tensors())
    if (!used.contains(x.name))
      throw input_error(
          "'{}': tensor {} is not a part of the model that the metadata describe ('{}'); the model "
          "cannot be imported",
          file.path().string(),
          shown(nlohmann::json(x.name)),
          (dir / "config.json").string());
}

}  // namespace troupe::runtime
