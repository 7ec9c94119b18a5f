#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

bool has_sound_manifest(const fs::path& folder) {
  try {
    const auto path = folder / manifest_file;
    static_cast<void>(manifest_from_json(read_text(path), path.string()));
    return true;
  } catch (const input_error&) {
    return false;
  }
}

/// Returns the iteration to try first. If it is not the tracked one, adds the reason to the
/// warnings.
std::int64_t expected_iteration(const fs::path& dir,
                                const std::vector<std::int64_t>& there,
                                std::vector<std::string>& warnings) {
  const auto newest = there.empty() ? 0 : there.front();
  try {
    const auto tracked = tracked_iteration(dir);
    if (!tracked) {
      warnings.push_back(fmt::format("'{}' is missing", (dir / tracker_file).string()));
      return newest;
    }
    if (std::find(there.begin(), there.end(), *tracked) == there.end())
      warnings.push_back(fmt::format("'{}' names iteration {}, but there is no folder '{}'",
                                     (dir / tracker_file).string(),
                                     *tracked,
                                     iteration_folder(*tracked)));
    return *tracked;
  } catch (const input_error& failure) {
    warnings.push_back(failure.what());
    return newest;
  }
}

}  // namespace

found_checkpoint latest_checkpoint(const fs::path& dir,
                                   const std::function<void(std::uint64_t)>& advance) {
  found_checkpoint out;
  const auto there = iterations_in(dir);
  std::error_code failure;
  if (there.empty() && !fs::exists(dir / tracker_file, failure))
    return out;
  const auto expected = expected_iteration(dir, there, out.warnings);
  for (const auto iteration : there) {
    if (iteration > expected)
      continue;  // saved by an abandoned run
    const auto folder = dir / iteration_folder(iteration);
    try {
      open_checkpoint(folder, advance);
      if (!out.warnings.empty())
        out.warnings.push_back(fmt::format("resuming from '{}'", folder.string()));
      out.folder = folder;
      return out;
    } catch (const input_error& damage) {
      out.warnings.push_back(damage.what());
    }
  }
  std::string all;
  for (const auto& warning : out.warnings)
    all += "\n  " + warning;
  throw input_error(
      "no checkpoint in '{}' is valid; restore one, or choose an empty folder to start "
      "anew:{}",
      dir.string(),
      all);
}

std::vector<fs::path> remove_all_but_latest(const fs::path& dir, int keep, std::uint64_t every) {
  ensure(keep >= 1, "CHECKPOINT-4: the latest checkpoint is never removed");
  std::vector<fs::path> removed;
  const auto tracked = tracked_iteration(dir);
  if (!tracked)
    return removed;
  int kept = 0;
  for (const auto iteration : iterations_in(dir)) {
    const auto folder = dir / iteration_folder(iteration);
    if (iteration > *tracked)
      continue;
    if (kept < keep) {
      kept += has_sound_manifest(folder) ? 1 : 0;
      continue;
    }
    if (every > 0 && std::uint64_t(iteration) % every == 0)
      continue;
    const auto leaving = dir / removed_folder(iteration);
    rename_durably(folder, leaving);
    remove_all_of(leaving);
    removed.push_back(folder);
  }
  return removed;
}

std::unique_ptr<checkpoint_reader> open_model(const std::filesystem::path& from) {
  std::error_code failure;
  if (!std::filesystem::is_directory(from, failure))
    throw input_error(
        "cannot load a model from '{}': there is no such folder and no such GGUF file; name the "
        "`checkpoints.save` folder of a training run, a model folder of Hugging Face, a GGUF file, "
        "or a model of the Hub as ORG/NAME",
        from.string());
  if (std::filesystem::exists(from / "manifest.json", failure))
    return open_checkpoint(from);
  const auto found = latest_checkpoint(from);
  for (const auto& warning : found.warnings)
    log_warning("{}", warning);
  if (!found.folder)
    throw input_error(
        "cannot load a model from '{}': it has neither a checkpoint nor a config.json; name the "
        "`checkpoints.save` folder of a training run, or a model folder of Hugging Face",
        from.string());
  return open_checkpoint(*found.folder);
}

}  // namespace troupe::runtime
