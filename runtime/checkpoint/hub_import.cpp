#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/checkpoint/initial_parameters.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// A parameter, or some matrices of several.
struct saved_part {
  const hub_recipe* parameter;
  box part;
};

/// Cuts a parameter with more than `most` elements between its matrices, if it has several.
std::vector<saved_part> parts_of(const hub_recipe& x, std::int64_t most) {
  const auto all = whole(x.extents);
  if (x.extents.rank() < 3 || x.extents.size() <= most)
    return {saved_part{&x, all}};
  const auto matrices = x.extents[0];
  const auto step = std::max<std::int64_t>(1, most / (x.extents.size() / matrices));
  std::vector<saved_part> out;
  for (std::int64_t first = 0; first < matrices; first += step)
    out.push_back({&x, between(all, 0, first, std::min(first + step, matrices))});
  return out;
}

/// Groups parts into files: as many as fit, in order.
std::vector<std::vector<saved_part>> files_of(std::span<const hub_recipe> all, std::int64_t most) {
  std::vector<std::vector<saved_part>> out;
  std::int64_t elements = 0;
  for (const auto& parameter : all)
    for (const auto& x : parts_of(parameter, most)) {
      elements += x.part.size();
      if (out.empty() || elements > most) {
        out.emplace_back();
        elements = x.part.size();
      }
      out.back().push_back(x);
    }
  return out;
}

}  // namespace

bool is_hub_folder(const fs::path& dir) {
  std::error_code failure;
  return fs::is_regular_file(dir / "config.json", failure)
         && !fs::exists(dir / manifest_file, failure) && iterations_in(dir).empty();
}

std::string read_hub_config(const fs::path& dir) {
  std::error_code failure;
  const auto file = dir / "config.json";
  if (!fs::exists(file, failure) && fs::is_directory(dir, failure)
      && (fs::exists(dir / manifest_file, failure) || !iterations_in(dir).empty()))
    throw input_error(
        "'{}' has checkpoints of Troupe, and no config.json of Hugging Face; it needs no import: "
        "training, `troupe generate` and `troupe eval` take it with `checkpoints.load`",
        dir.string());
  return read_text(file);
}

void require_no_checkpoints(const fs::path& dir) {
  if (!iterations_in(dir).empty())
    throw input_error("'{}' has checkpoints already; name a folder without checkpoints",
                      dir.string());
}

fs::path save_hub_model(const hub_model& model,
                        const fs::path& dir,
                        const directory_lock& /*lock*/,
                        const std::string& identity,
                        const std::function<void(std::uint64_t)>& advance,
                        std::int64_t elements_of_file) {
  require_no_checkpoints(dir);
  checkpoint_writer by(dir, 0, generation_id{1});
  checkpoint_manifest manifest;
  manifest.model = model.config();
  manifest.identity = identity;
  const initial_parameters begun(model.config());
  std::vector<hub_recipe> parameters;
  for (const auto& x : model.parameters())
    if (begun.find(x.name) != nullptr)
      parameters.push_back(x);
  for (const auto* x : begun.lacking([&](std::string_view name) { return model.has(name); }))
    parameters.push_back({.name = x->name, .extents = whole_extents(*x), .rows = {}});
  const auto files = files_of(parameters, elements_of_file);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<std::vector<float>> elements;
    std::vector<shard_to_write> tensors;
    for (const auto& [parameter, part] : files[i]) {
      const auto& x = *parameter;
      elements.emplace_back(std::size_t(part.size()));
      if (x.rows.empty())
        begun.draw(*begun.find(x.name), part, elements.back());
      else
        model.read(x.name, part, elements.back());
      tensors.push_back({x.name, x.extents, part, {stored_type::f32, elements.back().data()}});
      done += elements.back().size();
      if (advance)
        advance(done);
    }
    manifest.shards.push_back(
        by.write_shard(shard_file("model", int(i) + 1, int(files.size())), tensors));
  }
  return by.commit(std::move(manifest));
}

}  // namespace troupe::runtime
