// The recipes of a model of the Hub: by a table of names, or collected one by one.

#pragma once

#include "runtime/family/hub_translation.hpp"
#include "runtime/model/model_spec.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The sources of a parameter, or of those of one name in all layers of a stack: "{}" is the
/// layer's number. Names are without ".weight" and ".bias".
struct hub_name {
  std::string ours;
  /// Several have equal numbers of rows, which alternate in `groups` groups.
  std::vector<std::string> theirs;
  std::int64_t groups = 1;
  const char* weight = "weight";  ///< the ends of the sources' names
  const char* bias = "bias";
};

/// The recipes of a model's parameters in its order. Ties and parameters without a name have none.
std::vector<hub_recipe> recipes_by_name(const model_spec& model,
                                        const std::vector<hub_name>& names);

/// `rows` and `columns` are those of the Troupe tensor.
class recipe_book {
 public:
  static constexpr std::int64_t vector = 0;  ///< columns value that means a vector

  /// Takes one whole source tensor.
  void copy(std::string name, std::string source, std::int64_t rows, std::int64_t columns) {
    add(std::move(name), rows, columns, {{std::move(source), 0, rows, rows}});
  }

  /// Takes a vector that other types would round too much.
  void copy_in_f32(std::string name, std::string source, std::int64_t size) {
    copy(std::move(name), std::move(source), size, vector);
    recipes_.back().stays_f32 = true;
  }

  void add(std::string name, std::int64_t rows, std::int64_t columns, std::vector<hub_rows> parts) {
    const auto extents = columns == vector ? shape{rows} : shape{rows, columns};
    recipes_.push_back({std::move(name), extents, false, std::move(parts)});
  }

  /// Adds matrices of equal extents; `parts` has the rows of all.
  void stack(std::string name,
             std::int64_t matrices,
             std::int64_t rows,
             std::int64_t columns,
             std::vector<hub_rows> parts) {
    recipes_.push_back({std::move(name), {matrices, rows, columns}, false, std::move(parts)});
  }

  /// Adds a recipe with sources stored as (in, out).
  void add_transposed(std::string name,
                      std::int64_t rows,
                      std::int64_t columns,
                      std::vector<hub_rows> parts) {
    recipes_.push_back({std::move(name), {rows, columns}, true, std::move(parts)});
  }

  std::vector<hub_recipe> take() { return std::move(recipes_); }

 private:
  std::vector<hub_recipe> recipes_;
};

/// The rows of separate queries, keys and values, ordered by group: its query heads, its key head
/// and its value head.
inline std::vector<hub_rows> fused_qkv(const std::array<std::string, 3>& sources,
                                       std::int64_t heads,
                                       std::int64_t groups,
                                       std::int64_t head_size) {
  const auto D = head_size, queries = heads / groups * D;
  std::vector<hub_rows> out;
  for (std::int64_t group = 0; group < groups; ++group) {
    out.push_back({sources[0], group * queries, queries, heads * D});
    out.push_back({sources[1], group * D, D, groups * D});
    out.push_back({sources[2], group * D, D, groups * D});
  }
  return out;
}

}  // namespace troupe::runtime
