#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/core/error.hpp"

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t elements_of_file = 500'000'000;  // limit of a file, which is held in memory

/// Groups parameters into files: as many as fit, in order.
std::vector<std::span<const hub_recipe>> files_of(std::span<const hub_recipe> all) {
  std::vector<std::span<const hub_recipe>> out;
  for (std::size_t first = 0; first < all.size();) {
    auto end = first;
    for (std::int64_t elements = 0; end < all.size(); ++end) {
      elements += all[end].extents.size();
      if (end > first && elements > elements_of_file)
        break;
    }
    out.push_back(all.subspan(first, end - first));
    first = end;
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
                        const std::function<void(std::uint64_t)>& advance) {
  require_no_checkpoints(dir);
  checkpoint_writer by(dir, 0, generation_id{1});
  checkpoint_manifest manifest;
  manifest.model = model.config();
  manifest.identity = identity;
  const auto files = files_of(model.parameters());
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<std::vector<float>> elements;
    std::vector<shard_to_write> tensors;
    for (const auto& x : files[i]) {
      elements.emplace_back(std::size_t(x.extents.size()));
      model.read(x.name, elements.back());
      tensors.push_back(whole_tensor(x.name, stored_type::f32, x.extents, elements.back().data()));
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
