#include "runtime/checkpoint/listing.hpp"

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/checkpoint/own_parameters.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// A folder with an iteration's name counts as a checkpoint even without a manifest, unless it
/// contains checkpoints: a run's folder may have any name.
bool is_checkpoint(const fs::path& dir) {
  std::error_code failure;
  return fs::exists(dir / manifest_file, failure)
         || (iteration_of_folder(dir.filename().string()).has_value()
             && iterations_in(dir).empty());
}

std::optional<std::int64_t> tracked_in(const fs::path& dir) {
  try {
    return tracked_iteration(dir);
  } catch (const input_error&) {
    return std::nullopt;
  }
}

/// Handles "dir/", which ends with an empty name, and ".".
fs::path plain(const fs::path& dir) {
  std::error_code failure;
  if (!fs::is_directory(dir, failure))
    throw input_error(
        "there is no folder '{}'; name a checkpoint, DIR/iter_0000100, or the `checkpoints.save` "
        "folder of a "
        "run",
        dir.string());
  const auto clean = dir.lexically_normal();
  return clean.has_filename() && clean != "." ? clean : fs::canonical(dir);
}

listed_checkpoint listed(const fs::path& folder) {
  listed_checkpoint out;
  out.folder = folder;
  out.iteration = iteration_of_folder(folder.filename().string()).value_or(0);
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (const auto size = entry.file_size(failure); !failure)
      out.bytes += size;
  const auto written = fs::last_write_time(folder / manifest_file, failure);
  if (!failure)
    out.saved = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
        fs::file_time_type::clock::to_sys(written));
  try {
    const checkpoint_reader reader(folder);
    require_known_parameters(reader);
    out.manifest = reader.manifest();
    out.iteration = out.manifest->iteration;
  } catch (const error& failed) {
    out.wrong = failed.what();
  }
  return out;
}

}  // namespace

std::vector<listed_checkpoint> list_checkpoints(const fs::path& dir) {
  const auto where = plain(dir);
  std::vector<listed_checkpoint> out;
  if (is_checkpoint(where)) {
    out.push_back(listed(where));
    out.back().tracked = tracked_in(where.parent_path()) == out.back().iteration;
    return out;
  }
  const auto tracked = tracked_in(where);
  for (const auto iteration : iterations_in(where)) {
    out.push_back(listed(where / iteration_folder(iteration)));
    out.back().tracked = tracked == iteration;
  }
  if (out.empty() && is_hub_folder(dir))
    throw input_error(
        "'{}' has no checkpoint; it is a model folder of Hugging Face, so make one with `troupe "
        "checkpoint import`",
        dir.string());
  if (out.empty())
    throw input_error(
        "'{}' has no checkpoint (a manifest.json, or folders iter_*); name the `checkpoints.save` "
        "folder of a run",
        dir.string());
  std::reverse(out.begin(), out.end());
  return out;
}

fs::path named_checkpoint(const fs::path& dir) {
  const auto where = plain(dir);
  if (is_checkpoint(where))
    return where;
  if (const auto tracked = tracked_in(where))
    return where / iteration_folder(*tracked);
  return list_checkpoints(dir).back().folder;
}

}  // namespace troupe::runtime
